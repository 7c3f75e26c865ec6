/** The peers' packages have no types that the check could rely on: only scripts/bench installs them. */
declare module 'better-sqlite3';
declare module 'busboy';
declare module 'express';
declare module 'nodemailer';
