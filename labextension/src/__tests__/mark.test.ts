import { expect, test } from 'vitest';

import { METADATA_KEY, markSession } from '../lab/mark';
import type { IMetadata } from '../lab/mark';

/** Metadata of a notebook, and how often it was written. */
class Metadata implements IMetadata {
  constructor(readonly values: Record<string, unknown> = {}) {}

  writes = 0;

  getMetadata(key: string): unknown {
    return this.values[key];
  }

  setMetadata(key: string, value: { readonly [name: string]: unknown }): void {
    this.values[key] = value;
    this.writes += 1;
  }
}

test('the session is written once, and again only when it is another', () => {
  const notebook = new Metadata();

  markSession(notebook, 'one');
  markSession(notebook, 'one');
  expect(notebook.values[METADATA_KEY]).toEqual({ session_id: 'one' });
  expect(notebook.writes).toBe(1);

  markSession(notebook, 'two');
  expect(notebook.values[METADATA_KEY]).toEqual({ session_id: 'two' });
});

test('what else stands under the key is kept', () => {
  const notebook = new Metadata({
    [METADATA_KEY]: { other: 1, session_id: 'old' },
    kernelspec: {}
  });

  markSession(notebook, 'one');

  expect(notebook.values).toEqual({
    [METADATA_KEY]: { other: 1, session_id: 'one' },
    kernelspec: {}
  });
});

test.each([null, 'text', 3, ['list']])('%j under the key gives way', value => {
  const notebook = new Metadata({ [METADATA_KEY]: value });

  markSession(notebook, 'one');

  expect(notebook.values[METADATA_KEY]).toEqual({ session_id: 'one' });
});
