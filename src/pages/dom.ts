/**
 * Makes and renews elements of a page. Text of strangers becomes text only, never markup.
 */

/** A function is a listener for the event of that name; null and false leave the attribute out. */
type Attributes = Readonly<Record<string, string | number | boolean | null | ((event: Event) => void)>>;
type Child = Node | string;

/** An element with these attributes and children. */
export function html<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[Tag] {
  return dressed(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg<Tag extends keyof SVGElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: readonly Child[]
): SVGElementTagNameMap[Tag] {
  return dressed(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
}

function dressed<Made extends Element>(made: Made, attributes: Attributes, children: readonly Child[]): Made {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') made.addEventListener(name, value);
    else if (value !== null && value !== false) made.setAttribute(name, value === true ? '' : String(value));
  }
  made.append(...children);
  return made;
}

/** A line of a list that shows its `content` when it is opened; it is open if `before`, which it replaces, is. */
export function openable(
  summary: readonly Child[],
  content: readonly Child[],
  before: Element | undefined,
  toggle: (() => void) | null = null,
): HTMLElement {
  const open = before?.querySelector('details')?.open ?? false;
  return html('li', {}, html('details', { open, toggle }, html('summary', {}, ...summary), ...content));
}

/** A list of names and values; a fact without a value is left out. */
export function factList(
  facts: readonly (readonly [name: string, value: Child | null])[],
  attributes: Attributes = {},
): HTMLElement {
  const items = facts.flatMap(([name, value]) =>
    value === null ? [] : [html('dt', {}, name), html('dd', {}, value)],
  );
  return html('dl', attributes, ...items);
}

/** A button; `label` is for screen readers, where the words alone do not tell which one it is. */
export function button(words: string, click: () => void, label: string | null = null): HTMLButtonElement {
  return html('button', { type: 'button', 'aria-label': label, click }, words);
}

/** The sign of a message with files. */
export function paperclip(): SVGElement {
  const d = 'M11 4v7a3 3 0 0 1-6 0V3.5a2 2 0 0 1 4 0V11a1 1 0 0 1-2 0V5';
  const attributes = { viewBox: '0 0 16 16', class: 'clip', role: 'img', 'aria-label': 'with files' };
  return svg('svg', attributes, svg('path', { d }));
}

/** The element of the document with this id. Throws if the document has none. */
export function byId<Kind extends HTMLElement>(id: string): Kind {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`The page has no #${id}`);
  return found as Kind;
}

/** Says something in #`id`. A screen reader reads out each change, so the same words change nothing. */
export function say(id: string, words: string): void {
  const place = byId(id);
  if (place.textContent !== words) place.textContent = words;
}

/** One sentence about everything: in #headline, coloured, and in the title of the page, behind the `name`. */
export function sayHeadline(name: string, mood: string, words: string): void {
  say('headline', words);
  byId('headline').className = mood;
  document.title = `${mood === 'bad' || mood === 'uneasy' ? '! ' : ''}${name}: ${words}`;
}

/** What a place shows, as JSON: what has not changed is left alone, with its focus and its selection. */
const shown = new WeakMap<Element, string>();

/** Fills `place` with what `make` gives, unless it shows `value` already. */
export function show(place: Element, value: unknown, make: () => readonly Child[]): void {
  const text = JSON.stringify(value);
  if (shown.get(place) === text) return;
  shown.set(place, text);
  keepingFocus(place, () => place.replaceChildren(...make()));
}

/**
 * Fills `place` with one element for each item; that of an unchanged item stays. `make` gets the one before it. `empty`
 * stands there without any item.
 */
export function showList<Item>(
  place: Element,
  items: readonly Item[],
  keyOf: (item: Item) => string,
  make: (item: Item, before: Element | undefined) => HTMLElement,
  empty = '',
): void {
  const before = new Map([...place.children].map((child) => [(child as HTMLElement).dataset.key, child]));
  const wanted = items.map((item) => {
    const key = keyOf(item);
    const old = before.get(key);
    const text = JSON.stringify(item);
    if (old !== undefined && shown.get(old) === text) return old;
    const made = make(item, old);
    made.dataset.key = key;
    shown.set(made, text);
    return made;
  });
  keepingFocus(place, () => {
    const kept = new Set<Element>(wanted);
    for (const child of [...place.children]) if (!kept.has(child)) child.remove();
    // An element that moves loses the focus: only new ones are put in.
    wanted.forEach((child, index) => {
      if (place.children[index] !== child) place.insertBefore(child, place.children[index] ?? null);
    });
  });
  if (items.length === 0 && empty !== '') place.replaceChildren(html('li', { class: 'soft' }, empty));
}

/** If `change` replaces the element with the focus, its successor gets it: the same kind of element with the same words. */
function keepingFocus(place: Element, change: () => void): void {
  const active = document.activeElement;
  const key = (of: Element) => of.closest<HTMLElement>('[data-key]')?.dataset.key;
  const focused = active !== null && place.contains(active) ? { active, key: key(active) } : null;
  change();
  if (focused === null || place.contains(focused.active)) return;
  const { active: old, key: oldKey } = focused;
  const same = [...place.querySelectorAll<HTMLElement>(old.tagName)].find(
    (one) => key(one) === oldKey && one.textContent === old.textContent,
  );
  same?.focus();
}
