/** A deadline for what a kernel answers by itself, however long its cells run. */

import type { Kernel } from '@jupyterlab/services';

/** A kernel at rest answers in milliseconds; this long, and the answer was lost. */
export const SILENT_MS = 10_000;

/** The kernel had nothing to do, and did not answer. */
export class SilentError extends Error {}

/**
 * Return the answer. Rejects with a SilentError once the kernel has been idle for `SILENT_MS` on
 * end: while it starts or runs a cell, an answer may take as long as that does.
 */
export function unlessSilent<T>(
  kernel: Pick<Kernel.IKernelConnection, 'status' | 'statusChanged'>,
  answer: Promise<T>
): Promise<T> {
  return new Promise((resolve, reject) => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const wait = (): void => {
      clearTimeout(timer);
      if (kernel.status === 'idle') {
        timer = setTimeout(() => {
          end();
          reject(new SilentError('The kernel is idle and does not answer.'));
        }, SILENT_MS);
      }
    };
    const end = (): void => {
      clearTimeout(timer);
      kernel.statusChanged.disconnect(wait);
    };
    kernel.statusChanged.connect(wait);
    wait();
    answer.then(resolve, reject).finally(end);
  });
}
