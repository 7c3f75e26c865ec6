/**
 * The words of all languages.
 */
import type { Lang } from '../../base/langs.js';
import { DE } from './de.js';
import { EN } from './en.js';
import { ES } from './es.js';
import { FR } from './fr.js';
import { IT } from './it.js';
import { NL } from './nl.js';
import { PL } from './pl.js';
import type { Words } from './words.js';

/** The words of each language. */
export const WORDS: Readonly<Record<Lang, Words>> = {
  nl: NL,
  fr: FR,
  de: DE,
  en: EN,
  it: IT,
  pl: PL,
  es: ES,
};
