/**
 * The kinds of value that say where the reference cloud's etcd is.
 */
import { hasControl } from '../text.js';
import { items, type Kind, parseUrl, refuse, shown } from './values.js';

/** Where the members of an etcd are. */
export interface EtcdStoreConfig {
  /** Origins, as `https://a:2379`. */
  readonly endpoints: readonly string[];
}

/** The state of the reference cloud in etcd: `etcd:https://a:2379,https://b:2379`. */
export const etcdStore: Kind<EtcdStoreConfig> = {
  allowed:
    '`etcd:` and https:// URLs of its members, separated by commas (http:// only to this machine itself)',
  parse(text) {
    const list = /^etcd:(.+)$/.exec(text)?.[1] ?? refuse('it does not begin with etcd:');
    const endpoints = items(list).map((item) => {
      const url = parseUrl(item);
      return url.pathname === '/' && url.search === '' ? url.origin : refuse('a URL of a member has no path');
    });
    return { endpoints };
  },
  show: ({ endpoints }) => `etcd:${endpoints.join(',')}`,
};

/** The beginning of all keys in etcd. */
export const etcdPrefix = shown('visible ASCII of at most 100 characters', (text) =>
  /^[\x21-\x7e]{1,100}$/.test(text) ? text : refuse('it has blanks or other characters, or it is too long'),
);

export const etcdUser = shown('the name of a user of etcd', (text) =>
  hasControl(text) ? refuse('it has a control character') : text,
);
