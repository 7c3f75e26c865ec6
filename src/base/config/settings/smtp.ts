/**
 * The settings of the SMTP server.
 */
import { tcpListeners } from '../endpoints.js';
import { certificates, privateKey } from '../file-kinds.js';
import { given, inFile } from '../row.js';

export const SMTP_SETTINGS = {
  smtpListen: given({
    key: 'FIELDPOST_SMTP_LISTEN',
    kind: tcpListeners,
    fallback: '',
    words: 'none',
    about:
      'Where programs and devices that speak SMTP bring their mails. Anything but loopback needs a token, which is the password of any user. Ports below 1024 need `fieldpost-smtp.socket`.',
  }),
  // A renewed certificate needs no restart.
  smtpCert: inFile({
    key: 'FIELDPOST_SMTP_CERT_FILE',
    kind: certificates,
    follows: 'live',
    about:
      "The SMTP server's certificate, with its chain. With it, clients beyond loopback must use STARTTLS before they log in.",
  }),
  smtpKey: inFile({
    key: 'FIELDPOST_SMTP_KEY_FILE',
    kind: privateKey,
    follows: 'live',
    about: "That certificate's private key: PEM, without a passphrase.",
    isSecret: true,
  }),
};
