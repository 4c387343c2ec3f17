/** Does in the notebook what views in the outputs of its cells ask for: see `acts.ts`. */

import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';

import { ACT } from '../acts';
import type { IAct } from '../acts';

/** Hear every view in an output of an open notebook. */
export function serveOutputs(tracker: INotebookTracker): void {
  document.addEventListener(ACT, event => {
    const { target } = event;
    const panel = tracker.find(one => target instanceof Node && one.node.contains(target));
    if (
      panel &&
      target instanceof Node &&
      serve(panel, target, (event as CustomEvent<IAct>).detail)
    ) {
      event.preventDefault();
    }
  });
}

/** Do one thing; whether it was done. */
function serve({ content }: NotebookPanel, node: Node, { op, text }: IAct): boolean {
  const { model, widgets } = content;
  const own = widgets.findIndex(cell => cell.node.contains(node));
  const isFree = model?.readOnly === false && own >= 0;
  switch (op) {
    case 'look':
      return isFree;
    case 'insert':
      if (!isFree) {
        return false;
      }
      model.sharedModel.insertCell(own + 1, { cell_type: 'code', source: text, metadata: {} });
      go(content, own + 1);
      return true;
    case 'open': {
      const at = widgets.findIndex(cell => cell.model.id === text);
      if (at >= 0) {
        go(content, at);
      }
      return at >= 0;
    }
  }
}

function go(notebook: NotebookPanel['content'], at: number): void {
  notebook.deselectAll();
  notebook.activeCellIndex = at;
  void notebook.scrollToItem(at, 'smart');
}
