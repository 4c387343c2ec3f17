/** What the panel is told of real sessions: the fixtures that both languages test themselves on. */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { EMPTY } from '../conversation';
import type { IConversation } from '../conversation';
import { reduce } from '../fold';
import type { Item } from '../panel';
import { isRefused, parseItem } from '../parse';

const FOLDER = join(import.meta.dirname, '../../../tests/fixtures/panel');

export interface IScene {
  readonly about: string;
  readonly items: readonly unknown[];
  readonly coalesced: readonly unknown[];
  readonly stored: readonly unknown[];
}

export function loadPanel(name: string): unknown {
  return JSON.parse(readFileSync(join(FOLDER, `${name}.json`), 'utf-8'));
}

export function panelNames(folder = ''): string[] {
  return readdirSync(join(FOLDER, folder))
    .filter(name => name.endsWith('.json'))
    .map(name => name.slice(0, -'.json'.length));
}

/** The scenes: fixtures that are a list of items, told one by one and joined. */
export const SCENES: ReadonlyMap<string, IScene> = new Map(
  panelNames()
    .map(name => [name, loadPanel(name)] as const)
    .filter((pair): pair is readonly [string, IScene] => 'coalesced' in (pair[1] as object))
);

/** Return the items, each parsed; throws where one is refused. */
export function itemsOf(told: readonly unknown[]): Item[] {
  return told.map(one => {
    const item = parseItem(one);
    if (isRefused(item)) {
      throw new Error(item.reason);
    }
    return item;
  });
}

export function fold(items: readonly Item[], from: IConversation = EMPTY): IConversation {
  return items.reduce(reduce, from);
}

/** The conversation of a scene. */
export function scene(name: string): IConversation {
  const found = SCENES.get(name);
  if (!found) {
    throw new Error(`there is no scene ${name}`);
  }
  return fold(itemsOf(found.items));
}
