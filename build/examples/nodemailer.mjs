// nodemailer.mjs TO: sends a mail as Node-RED's email node does, by nodemailer and SMTP.
//
// Fieldpost listens for SMTP if fieldpost.env says so: FIELDPOST_SMTP_LISTEN=127.0.0.1:2525
// In Node-RED's email node: server 127.0.0.1, port 2525, no secure connection, authentication "None".
// The flow goes on when the mail is on the disk; weeks without a network do not hold it up.
import nodemailer from 'nodemailer';

const [to] = process.argv.slice(2);
const transport = nodemailer.createTransport({
  host: '127.0.0.1',
  port: Number(process.env.FIELDPOST_SMTP_PORT ?? 2525),
  secure: false,
  // The connection never leaves this device.
  ignoreTLS: true,
});

const { response } = await transport.sendMail({
  from: process.env.FROM ?? 'gateway@example.com',
  to,
  subject: 'Tank 2 is full',
  text: 'The level is above 95 %.',
  headers: { 'X-Fieldpost-Collapse': 'tank-2-full' },
});
console.log(response);
