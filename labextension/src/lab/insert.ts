/** Puts code into a notebook, as its person asked, and goes to a cell. */

import type { Notebook } from '@jupyterlab/notebook';

import { sourceLines } from '../edits';
import { stopCapturing } from './bridge';

type Place = Pick<Notebook, 'activeCellIndex' | 'deselectAll' | 'scrollToItem'>;

/** Insert a code cell at `at`, which is active then: a step of its own for JupyterLab's undo. */
export function insertCode(
  notebook: Place & Pick<Notebook, 'model'>,
  at: number,
  code: string
): void {
  const shared = notebook.model?.sharedModel;
  if (shared) {
    stopCapturing(shared);
    shared.insertCell(at, { cell_type: 'code', source: sourceLines(code), metadata: {} });
    stopCapturing(shared);
    goTo(notebook, at);
  }
}

/** Make a cell the active one, in sight. */
export function goTo(notebook: Place, at: number): void {
  notebook.deselectAll();
  notebook.activeCellIndex = at;
  void notebook.scrollToItem(at, 'smart');
}
