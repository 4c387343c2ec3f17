/** The messages that both languages test themselves on. */

import { readdirSync, readFileSync } from 'node:fs';

import { parseMessage } from '../events';
import type { IContextChanged } from '../events';
import { ABSENT, reduce } from '../state';
import type { IPanelState } from '../state';

const WIRE = new URL('../../../tests/fixtures/wire/', import.meta.url);

/** Names of the messages in `folder`, without the suffix. */
export function names(folder = ''): string[] {
  return readdirSync(new URL(folder, WIRE))
    .filter(name => name.endsWith('.json'))
    .map(name => name.slice(0, -'.json'.length));
}

export function load(name: string): unknown {
  return JSON.parse(readFileSync(new URL(`${name}.json`, WIRE), 'utf-8'));
}

export function contextMessage(name: string): IContextChanged {
  const message = parseMessage(load(name));
  if (message.type !== 'context') {
    throw new Error(`${name} is a ${message.type}`);
  }
  return message;
}

/** The state after a hello and the named message. */
export function stateAfter(name: string): IPanelState {
  return ['hello', name].reduce((state, one) => {
    const message = parseMessage(load(one));
    return message.type === 'request' ? state : reduce(state, message);
  }, ABSENT);
}
