/** What is dragged within JupyterLab, as mentions for a prompt. */

import type { MimeData } from '@lumino/coreutils';

/** Cells of a notebook, as it drags them, and paths of the file browser. */
const CELLS = 'application/vnd.jupyter.cells';
const FILES = 'application/x-jupyter-icontents';

/** Whether something is dragged that can be mentioned. */
export function canMention(data: MimeData): boolean {
  return data.hasData(CELLS) || data.hasData(FILES);
}

/**
 * Return the mentions of what is dragged, one word each. `folder` is where the notebook lies:
 * a path within it is told from there, as the kernel sees it.
 */
export function mentionsOf(data: MimeData, folder: string): string[] {
  const cells: unknown = data.getData(CELLS);
  if (Array.isArray(cells)) {
    return cells.flatMap((cell: unknown) => {
      const { id } = (cell ?? {}) as { id?: unknown };
      return typeof id === 'string' ? [mentionCell(id)] : [];
    });
  }
  const paths: unknown = data.getData(FILES);
  return Array.isArray(paths)
    ? paths
        .filter((path): path is string => typeof path === 'string')
        .map(path => mentionFile(path, folder))
    : [];
}

export function mentionCell(id: string): string {
  return `@cell:${id}`;
}

export function mentionFile(path: string, folder: string): string {
  const local = path.replace(/^[A-Za-z][\w.-]*:/, ''); // a drive of the file browser
  const inside = folder !== '' && local.startsWith(`${folder}/`);
  const near = inside ? local.slice(folder.length + 1) : relative(local, folder);
  return PLAIN.test(near) && /[./]/.test(near) ? `@${near}` : `@"${near}"`;
}

/** Return `path` as seen from `folder`, both from the server's root. */
function relative(path: string, folder: string): string {
  const ups = folder === '' ? [] : folder.split('/').map(() => '..');
  return [...ups, path].join('/');
}

/** A path that a mention holds without quotes, as jupyter_ctx/ipython/mentions.py reads it. */
const PLAIN = /^[\p{L}\p{N}_./~](?:[\p{L}\p{N}_./~%+=-]*[\p{L}\p{N}_~])?$/u;
