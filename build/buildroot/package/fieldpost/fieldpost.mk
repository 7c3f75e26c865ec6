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

# Buildroot enables all units but fieldpost-smtp.socket, which takes port 25: see 50-fieldpost.preset.
define FIELDPOST_INSTALL_TARGET_CMDS
	sh $(@D)/install $(TARGET_DIR)
endef

ifeq ($(BR2_PACKAGE_FIELDPOST_MTA),y)
# BusyBox has a sendmail of its own, which this replaces.
FIELDPOST_DEPENDENCIES += $(if $(BR2_PACKAGE_BUSYBOX),busybox)
define FIELDPOST_INSTALL_MTA
	sh $(@D)/install --mta $(TARGET_DIR)
endef
FIELDPOST_POST_INSTALL_TARGET_HOOKS += FIELDPOST_INSTALL_MTA
endif

# The groups of the unix sockets; the service's own user exists while it runs.
define FIELDPOST_USERS
	- - fieldpost-api -1 - - - - Fieldpost's unix socket
	- - fieldpost-send -1 - - - - Fieldpost's unix socket for sending only
endef

$(eval $(generic-package))
