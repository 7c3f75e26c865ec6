/**
 * The kinds of messages and destinations, for people. Pure.
 */

/** The names of the types 1 to 4. */
export const TYPES = ['Email', 'SMS', 'Phone call', 'Push message'];
