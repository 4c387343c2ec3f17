/**
 * Does in the notebook what views in the outputs of its cells ask for: see `acts.ts`.
 *
 * Any script of the page can send such an event. So one counts only while a click of a person, on
 * the very view that asks, is being handled.
 */

import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';

import { ACT } from '../acts';
import { goTo, insertCode } from './insert';

type Tracker = Pick<INotebookTracker, 'find'>;

/** Hear every view in an output of an open notebook. */
export function serveOutputs(tracker: Tracker): void {
  let click: Event | null = null;
  document.addEventListener(
    'click',
    event => {
      click = event;
    },
    true
  );
  document.addEventListener(ACT, event => {
    const { target } = event;
    if (!(event instanceof CustomEvent) || !(target instanceof Element)) {
      return;
    }
    const panel = tracker.find(({ node }) => node.contains(target));
    const isAsked = click !== null && isUnderWay(click) && click.composedPath().includes(target);
    if (panel && serve(panel, target, event.detail, isAsked)) {
      event.preventDefault();
    }
  });
}

/** Whether it is a person's, and not handled to the end yet. */
function isUnderWay(event: Event): boolean {
  return event.isTrusted && event.eventPhase !== Event.NONE;
}

/** Do one thing; whether it was done. */
function serve(
  { content }: NotebookPanel,
  node: Element,
  detail: unknown,
  isAsked: boolean
): boolean {
  const { op, text } = (detail ?? {}) as Readonly<Record<string, unknown>>;
  const { model, widgets } = content;
  const own = widgets.findIndex(cell => cell.node.contains(node));
  const isFree = model?.readOnly === false && own >= 0;
  if (op === 'look') {
    return isFree;
  }
  if (!isAsked || typeof text !== 'string') {
    return false;
  }
  const at = op === 'open' ? widgets.findIndex(cell => cell.model.id === text) : -1;
  if (at >= 0) {
    goTo(content, at);
  } else if (op === 'insert' && isFree) {
    insertCode(content, own + 1, text);
  } else {
    return false;
  }
  return true;
}
