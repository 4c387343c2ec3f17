// @vitest-environment happy-dom
import { afterEach, beforeEach, expect, it } from 'vitest';

import type { IConversation } from '../conversation';
import { reduce } from '../fold';
import type { Item } from '../panel';
import { BEGUN, Stage } from './stage';

let stage: Stage;

beforeEach(() => {
  stage = new Stage();
});

afterEach(() => {
  stage.end();
});

const queued = (id: string): Item => ({ kind: 'queued', id, text: `${id}…`, attachments: [] });

/** Send a prompt from the box; the kernel says that it waits. */
async function send(conversation: IConversation, id: string, text: string): Promise<IConversation> {
  stage.host.answers.set('submit', { id, queued: true });
  await stage.type(text);
  await stage.press(stage.prompt, 'Enter');
  const now = reduce(conversation, queued(id));
  await stage.show(now);
  return now;
}

it('gives back what was sent from here and waited when the kernel goes', async () => {
  await stage.show(BEGUN);
  let now = await send(BEGUN, 'p1', 'the first, whole');
  now = await send(now, 'p2', 'the second');
  now = reduce(now, queued('of another page'));
  await stage.show(now);
  await stage.show({ ...now, epoch: null, queue: [] });
  expect(stage.prompt.value).toMatch(/^the first, whole\s+the second$/);
});

it('gives nothing back of what has begun, or was taken back', async () => {
  await stage.show(BEGUN);
  let now = await send(BEGUN, 'p1', 'the first');
  now = reduce(now, { kind: 'unqueued', id: 'p1', how: 'started' });
  await stage.show(now);
  await stage.show({ ...now, epoch: null, queue: [] });
  expect(stage.prompt.value).toBe('');
});

it('gives back every prompt that could not run, also of one message', async () => {
  await stage.show(BEGUN);
  const failed = (id: string): Item => ({ kind: 'failed', id, title: 'No', detail: '', text: id });
  await stage.show([failed('one'), failed('two')].reduce(reduce, BEGUN));
  expect(stage.prompt.value).toBe('one\n\ntwo');
});
