/** What becomes of the page when a cell's question is answered, or its turn ends unanswered. */

import { NotebookActions } from '@jupyterlab/notebook';
import type { Notebook } from '@jupyterlab/notebook';
import type { ISignal } from '@lumino/signaling';
import type { Widget } from '@lumino/widgets';

const AGENT = /^\s*%%?agent(?![\w.])/;

/** A cell of a notebook; one that runs has an output area, where its questions appear. */
type Cell = NonNullable<Notebook['activeCell']>;
interface IAsking {
  readonly inputRequested: ISignal<unknown, Widget>;
}

/** Look after the questions of every cell that asks the agent, from when it is to run. */
export function followQuestions(): void {
  NotebookActions.executionScheduled.connect((_, { notebook, cell }) => {
    const { outputArea } = cell as Cell & { outputArea?: IAsking };
    if (outputArea && AGENT.test(cell.model.sharedModel.getSource())) {
      new Questions(notebook, cell, outputArea, NotebookActions.executed);
    }
  });
}

/**
 * The questions of one run of a cell.
 *
 * A question takes the focus, and JupyterLab leaves it at the cell that asked: the next Shift Enter
 * would ask the agent the same again. So the cell that was active before is active afterwards. A
 * field that nobody answered stays in the page when the kernel is interrupted: it is taken away.
 */
export class Questions {
  constructor(
    notebook: Notebook,
    cell: Cell,
    area: IAsking,
    executed: ISignal<unknown, { cell: Cell }>
  ) {
    this._notebook = notebook;
    this._cell = cell;
    this._area = area;
    this._executed = executed;
    area.inputRequested.connect(this._onAsked, this);
    executed.connect(this._onExecuted, this);
  }

  private _onAsked(_: unknown, field: Widget): void {
    const { activeCell } = this._notebook;
    if (activeCell !== this._cell) {
      this._before = activeCell;
    }
    this._field = field;
    field.disposed.connect(() => {
      if (this._field === field) {
        this._field = null;
        this._goBack();
      }
    });
  }

  private _onExecuted(_: unknown, { cell }: { cell: Cell }): void {
    if (cell !== this._cell) {
      return;
    }
    this._executed.disconnect(this._onExecuted, this);
    this._area.inputRequested.disconnect(this._onAsked, this);
    this._field?.parent?.dispose();
  }

  /** Return to the cell that was active, unless the person has gone elsewhere meanwhile. */
  private _goBack(): void {
    const { _notebook: notebook, _before: before } = this;
    const isHere = notebook.activeCell === this._cell && notebook.mode === 'command';
    const index = before ? notebook.widgets.indexOf(before) : -1;
    if (isHere && index >= 0 && notebook.node.contains(document.activeElement)) {
      notebook.activeCellIndex = index;
      notebook.activate();
    }
  }

  private readonly _notebook: Notebook;
  private readonly _cell: Cell;
  private readonly _area: IAsking;
  private readonly _executed: ISignal<unknown, { cell: Cell }>;
  private _before: Cell | null = null;
  private _field: Widget | null = null;
}
