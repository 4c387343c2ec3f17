import { expect, it } from 'vitest';

import { ABSENT, reduce } from '../state';
import { contextMessage, stateAfter } from './fixtures';

it('knows the session after a hello, and no context yet', () => {
  const state = reduce(ABSENT, { type: 'hello', package_version: '0.1.0', session: 's' });

  expect(state).toEqual({
    link: 'connected',
    refusal: null,
    packageVersion: '0.1.0',
    session: 's',
    phase: 'idle',
    context: null,
    costs: null
  });
});

it('takes a context without a hello: a page that came back hears the middle of a turn', () => {
  const message = contextMessage('context_measured');

  expect(reduce(ABSENT, message)).toMatchObject({ link: 'connected', context: message.context });
});

it('forgets everything when the kernel goes, and on a new hello', () => {
  const before = stateAfter('context_measured');

  expect(reduce(before, { type: 'disconnected' })).toEqual(ABSENT);
  expect(
    reduce(before, { type: 'hello', package_version: '0.1.0', session: null }).context
  ).toBeNull();
});

it('shows no old figures beside a refusal', () => {
  const state = reduce(stateAfter('context_measured'), { type: 'refused', reason: 'Why.' });

  expect(state).toEqual({ ...ABSENT, link: 'refused', refusal: 'Why.' });
});

it('never edits the state it was given', () => {
  const before = Object.freeze(stateAfter('context_measured'));

  expect(reduce(before, contextMessage('context_paused'))).not.toBe(before);
});
