/**
 * Seals a process in which worlds are simulated: whatever reaches the real outside throws, and is told.
 */
import child_process from 'node:child_process';
import dgram from 'node:dgram';
import dns from 'node:dns';
import fs from 'node:fs';
import net from 'node:net';
import timers from 'node:timers';
import timersPromises from 'node:timers/promises';
import tls from 'node:tls';

/** From now on no timer is set, no file opened, no connection made and no time or chance taken that is real. */
export function seal(onTouch: (what: string) => void): void {
  // Node.js makes these at first use, from functions that are sealed here.
  void process.stdout;
  void process.stderr;
  const forbid = (owner: object, name: string, names: readonly string[]) => {
    for (const member of names) {
      const what = `${name}.${member}`;
      const forbidden = () => {
        onTouch(what);
        throw new Error(`a simulated world touches the outside: ${what}`);
      };
      Object.defineProperty(owner, member, { value: forbidden, configurable: true, writable: true });
    }
  };
  const functionsOf = (owner: object) =>
    Object.entries(owner).flatMap(([name, value]) => (typeof value === 'function' ? [name] : []));
  forbid(globalThis, 'globalThis', ['setTimeout', 'setInterval', 'fetch']);
  forbid(timers, 'timers', ['setTimeout', 'setInterval']);
  forbid(timersPromises, 'timers', ['setTimeout', 'setInterval']);
  forbid(AbortSignal, 'AbortSignal', ['timeout']);
  forbid(Date, 'Date', ['now']);
  forbid(Math, 'Math', ['random']);
  forbid(fs, 'fs', functionsOf(fs));
  forbid(fs.promises, 'fs.promises', functionsOf(fs.promises));
  forbid(child_process, 'child_process', functionsOf(child_process));
  forbid(dgram, 'dgram', functionsOf(dgram));
  forbid(dns, 'dns', functionsOf(dns));
  forbid(dns.promises, 'dns', functionsOf(dns.promises));
  forbid(tls, 'tls', ['connect', 'createServer']);
  forbid(net, 'net', ['connect', 'createConnection']);
  forbid(net.Socket.prototype, 'Socket', ['connect']);
  forbid(net.Server.prototype, 'Server', ['listen']);
}
