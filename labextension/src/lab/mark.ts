/** A notebook says in its metadata which session is its own: so it finds it again when renamed. */

import type { PartialJSONObject } from '@lumino/coreutils';

/** What this needs of a notebook's shared model. */
export interface IMetadata {
  getMetadata(key: string): unknown;
  setMetadata(key: string, value: PartialJSONObject): void;
}

/** Our key of the notebook's metadata; jupyter_ctx/ipython/disk.py reads it. */
export const METADATA_KEY = 'jupyter_ctx';

/** Write that `session` is the notebook's own, unless that stands there; what else does is kept. */
export function markSession(notebook: IMetadata, session: string): void {
  const found = notebook.getMetadata(METADATA_KEY);
  const before = typeof found === 'object' && found !== null && !Array.isArray(found) ? found : {};
  if (!('session_id' in before && before.session_id === session)) {
    notebook.setMetadata(METADATA_KEY, { ...before, session_id: session });
  }
}
