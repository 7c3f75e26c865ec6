/** Step numbers as one writes them: `3,7,9-40`. Used by simulate.ts. */

/** The numbers that a text names; null if it names none rightly. */
export function numbersOf(text: string): number[] | null {
  const all: number[] = [];
  for (const part of text.split(',')) {
    const [, low, high = low] = /^(\d{1,6})(?:-(\d{1,6}))?$/.exec(part) ?? [];
    if (low === undefined || high === undefined) return null;
    for (let number = Number(low); number <= Number(high); number++) all.push(number);
  }
  return all;
}

/** A text that names numbers, which rise. */
export function textOf(numbers: readonly number[]): string {
  const parts: string[] = [];
  for (let i = 0; i < numbers.length; ) {
    const low = numbers[i] as number;
    let high = low;
    while (numbers[i + 1 + high - low] === high + 1) high++;
    parts.push(low === high ? `${low}` : `${low}-${high}`);
    i += 1 + high - low;
  }
  return parts.join(',');
}
