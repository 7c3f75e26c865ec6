################################################################################
#
# fieldpost
#
################################################################################

FIELDPOST_VERSION = @VERSION@
FIELDPOST_SOURCE = fieldpost-$(FIELDPOST_VERSION).tar.gz
FIELDPOST_SITE = $(BR2_EXTERNAL_FIELDPOST_PATH)/package/fieldpost
FIELDPOST_SITE_METHOD = file
FIELDPOST_LICENSE = MIT
FIELDPOST_LICENSE_FILES = LICENSE
# Compiled already, and the same for every architecture.
FIELDPOST_DEPENDENCIES = nodejs

define FIELDPOST_INSTALL_TARGET_CMDS
	sh $(@D)/install $(TARGET_DIR)
endef

# The groups of the unix sockets; the service's own user exists while it runs.
define FIELDPOST_USERS
	- - fieldpost-api -1 - - - - Fieldpost's unix socket
	- - fieldpost-send -1 - - - - Fieldpost's unix socket for sending only
endef

$(eval $(generic-package))
