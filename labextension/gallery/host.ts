/** A host with nothing behind it: draws as the widget's does, answers with sample data. */

import { OutputHost } from '../src/widget/host';
import { CallError } from '../src/host';
import { COMPLETIONS, HELD_TEXT, MODELS, sessionsFor, SUMMARY } from './sample';

/** When it is in the gallery: 42 seconds into the running turn. */
export const NOW_S = 1_790_000_042;

export class GalleryHost extends OutputHost {
  readonly calls: { readonly op: string; readonly args: unknown }[] = [];

  /** `isNew`: nothing was asked of the agent before. */
  constructor(isNew: boolean) {
    super((op, args) => {
      this.calls.push({ op, args });
      switch (op) {
        case 'summary':
          return Promise.resolve(SUMMARY);
        case 'complete':
          return Promise.resolve(COMPLETIONS);
        case 'sessions':
          return Promise.resolve(sessionsFor(String(args['text']), isNew));
        case 'resume':
          return Promise.reject(new CallError('elsewhere', HELD_TEXT));
        case 'models':
          return Promise.resolve({ rows: MODELS });
        case 'estimate':
          return Promise.resolve({ tokens: 640, mentions: 0 });
        default:
          return Promise.resolve({});
      }
    }, document.body);
  }

  override now(): number {
    return NOW_S * 1000;
  }
}
