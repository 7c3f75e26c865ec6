/**
 * Views of one thing, of which one is shown: tabs, for the mouse, the keyboard and a screen reader.
 */
import { html } from '../dom.js';

/** A view, which is made when it is shown first. */
export interface View {
  readonly name: string;
  make(): readonly Node[];
}

/** The tabs and the place of the view. The view named `preferred` is shown first, else the first one. */
export function tabsOf(
  views: readonly View[],
  preferred: string,
  chosen: (name: string) => void,
): readonly [HTMLElement, HTMLElement] {
  const panel = html('div', { role: 'tabpanel', id: 'view', tabindex: 0 });
  const tabs = views.map((view, index) =>
    html(
      'button',
      {
        type: 'button',
        role: 'tab',
        id: `tab-${index}`,
        'aria-controls': 'view',
        click: () => choose(index),
      },
      view.name,
    ),
  );

  function show(index: number): void {
    tabs.forEach((tab, at) => {
      tab.setAttribute('aria-selected', String(at === index));
      tab.tabIndex = at === index ? 0 : -1;
    });
    panel.setAttribute('aria-labelledby', `tab-${index}`);
    panel.replaceChildren(...(views[index]?.make() ?? []));
  }

  function choose(index: number): void {
    chosen(views[index]?.name ?? '');
    show(index);
    tabs[index]?.focus();
  }

  const move = (event: Event) => {
    const { key } = event as KeyboardEvent;
    const at = tabs.findIndex((tab) => tab.tabIndex === 0);
    const last = tabs.length - 1;
    const to = {
      ArrowLeft: at === 0 ? last : at - 1,
      ArrowRight: at === last ? 0 : at + 1,
      Home: 0,
      End: last,
    }[key];
    if (to === undefined) return;
    event.preventDefault();
    choose(to);
  };
  show(
    Math.max(
      0,
      views.findIndex(({ name }) => name === preferred),
    ),
  );
  return [html('div', { role: 'tablist', 'aria-label': 'Views', keydown: move }, ...tabs), panel];
}
