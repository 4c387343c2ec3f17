/**
 * What a view in a cell's output asks of the page around it, as events of its own element.
 *
 * An output knows no notebook. Where our extension of JupyterLab is on the page it hears them, does
 * what is asked and says so by `preventDefault`; elsewhere nobody does, and the view offers nothing.
 * What changes anything is done only during a person's click on the view.
 */

export const ACT = 'jctx-act';

/** `look`: whether anybody hears. `insert`: below the cell it stands in. `open`: a cell by its id. */
export interface IAct {
  readonly op: 'look' | 'insert' | 'open';
  readonly text: string;
}

/** Ask for it; whether it was done. */
export function act(node: HTMLElement, op: IAct['op'], text = ''): boolean {
  const detail: IAct = { op, text };
  return !node.dispatchEvent(new CustomEvent(ACT, { bubbles: true, cancelable: true, detail }));
}
