SUMMARY = "Keeps the messages of a device and delivers them"
DESCRIPTION = "Takes messages from programs on the device, keeps them through power cuts and weeks without a \
network, and delivers them once the link is back."
HOMEPAGE = "@HOMEPAGE@"
LICENSE = "MIT"
LIC_FILES_CHKSUM = "file://LICENSE;md5=@LICENSE_MD5@"

SRC_URI = "file://fieldpost-${PV}.tar.gz"

inherit allarch systemd useradd features_check update-alternatives

REQUIRED_DISTRO_FEATURES = "systemd"
# Compiled already, and the same for every architecture.
RDEPENDS:${PN} = "nodejs systemd"
RRECOMMENDS:${PN} = "ca-certificates"

# fieldpost-smtp.socket is installed, but not enabled: it takes port 25.
SYSTEMD_SERVICE:${PN} = "fieldpost.socket fieldpost-send.socket fieldpost.service"
# The groups of the unix sockets; the service's own user exists while it runs.
USERADD_PACKAGES = "${PN}"
GROUPADD_PARAM:${PN} = "--system fieldpost-api; --system fieldpost-send"

do_configure[noexec] = "1"
do_compile[noexec] = "1"

do_install() {
    UNITDIR=${systemd_system_unitdir} SYSUSERSDIR=${nonarch_libdir}/sysusers.d \
        SYSCTLDIR=${nonarch_libdir}/sysctl.d MANDIR=${mandir} \
        sh ${S}/install ${D}
    UNITDIR=${systemd_system_unitdir} SYSUSERSDIR=${nonarch_libdir}/sysusers.d \
        SYSCTLDIR=${nonarch_libdir}/sysctl.d MANDIR=${mandir} \
        sh ${S}/install --mta ${D}
}

# sendmail, mailq and newaliases. IMAGE_INSTALL names it where Fieldpost is the mail transport agent.
PACKAGES =+ "${PN}-mta"
SUMMARY:${PN}-mta = "sendmail, mailq and newaliases of Fieldpost"
RDEPENDS:${PN}-mta = "${PN}"
FILES:${PN}-mta = "${sbindir}/sendmail ${nonarch_libdir}/sendmail ${bindir}/mailq ${bindir}/newaliases \
    ${systemd_system_unitdir}/fieldpost-send.socket.d"

ALTERNATIVE_PRIORITY = "30"
ALTERNATIVE:${PN}-mta = "sendmail mailq newaliases"
ALTERNATIVE_LINK_NAME[sendmail] = "${sbindir}/sendmail"
ALTERNATIVE_LINK_NAME[mailq] = "${bindir}/mailq"
ALTERNATIVE_LINK_NAME[newaliases] = "${bindir}/newaliases"

FILES:${PN} += "${nonarch_libdir}/fieldpost ${systemd_system_unitdir} ${systemd_unitdir}/system-preset \
    ${nonarch_libdir}/sysusers.d ${nonarch_libdir}/sysctl.d ${datadir}/bash-completion ${datadir}/zsh ${datadir}/fish"
CONFFILES:${PN} = "${sysconfdir}/fieldpost/fieldpost.env"
