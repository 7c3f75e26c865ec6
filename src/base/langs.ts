/**
 * The languages of notifications. Pure.
 */
export const LANGS = ['nl', 'fr', 'de', 'en', 'it', 'pl', 'es'] as const;

/** A language of LANGS. */
export type Lang = (typeof LANGS)[number];
