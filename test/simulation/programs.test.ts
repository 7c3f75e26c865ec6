/** What programs conclude from answers, in the order in which these reach them. */
import t from 'tap';
import { Chance } from './chance.js';
import { Model, type Posted } from './model.js';
import { Programs } from './programs.js';
import type { Answer } from './wire.js';

const FULL: Answer = {
  status: 503,
  headers: {},
  body: Buffer.from('{"type":"urn:fieldpost:problem:queue-full"}'),
};

/** Programs whose every request waits until the test answers it. */
function waiting() {
  const model = new Model();
  const answers: ((answer: Answer | null) => void)[] = [];
  const programs = new Programs({
    ask: () => new Promise((resolve) => answers.push(resolve)),
    ...{ model, watch: null, chance: new Chance(1), timeline: { nowMs: 0 }, types: [1], filesMax: 0 },
  });
  const arrives = () => {
    const [{ token, digest }] = [...model.messages.values()] as [Posted];
    model.arrived(token, digest, { atMs: 1, sinceMs: 1, messageId: null });
  };
  return { model, answers, programs, arrives };
}

t.test('of two tries at the same time one is refused and the other accepted', async (t) => {
  for (const refused of [0, 1]) {
    const { model, answers, programs, arrives } = waiting();
    const tries = [programs.post(1, true), programs.postAgain()];
    answers[refused]?.(FULL);
    await tries[refused];
    // The recipient may have it before its program reads the 202; after a kill no program ever does.
    arrives();
    answers[1 - refused]?.(null);
    await Promise.all(tries);
    t.strictSame(model.found, []);
  }
});

t.test('a try after one without an answer decides both', async (t) => {
  const { model, answers, programs, arrives } = waiting();
  const first = programs.post(1, true);
  answers[0]?.(null);
  await first;
  const second = programs.postAgain();
  answers[1]?.(FULL);
  await second;
  arrives();
  t.match(model.found, [/has arrived, which was refused/]);
});
