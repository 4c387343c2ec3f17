/** Above the prompt: what runs, what waits to be run. */

import * as React from 'react';

import type { IQueued } from '../panel';
import { usePlace } from './context';
import { CrossIcon, PenIcon } from './icons';
import { formatClock } from './words';

interface IRunLine {
  /** "" if nothing runs; the line is gone then, its place is not. */
  words: string;
  isWaiting: boolean;
  /** When it began, in seconds since the epoch; null: not known. */
  since: number | null;
}

export function RunLine({ words, isWaiting, since }: IRunLine): React.ReactElement {
  return (
    <div className={words === '' ? 'jctx-run off' : 'jctx-run'}>
      {words !== '' && (
        <span className={isWaiting ? 'jctx-dot wait' : 'jctx-dot'} aria-hidden="true" />
      )}
      <span className="cut grow" role="status">
        {words}
      </span>
      {words !== '' && since !== null && <Elapsed since={since} />}
    </div>
  );
}

/** The time that runs; a screen reader is not told each second. */
function Elapsed({ since }: { since: number }): React.ReactElement {
  const { host } = usePlace();
  const [now, setNow] = React.useState(() => host.now());
  React.useEffect(() => {
    setNow(host.now());
    const timer = setInterval(() => {
      setNow(host.now());
    }, 1000);
    return () => {
      clearInterval(timer);
    };
  }, [host, since]);
  return (
    <span className="quiet" aria-hidden="true">
      {formatClock(now / 1000 - since)}
    </span>
  );
}

interface IQueue {
  queue: readonly IQueued[];
  /** Number of the turn that the first of them will be; null: not known. */
  first: number | null;
  edit: (queued: IQueued) => void;
  remove: (queued: IQueued) => void;
}

export function Queue({ queue, first, edit, remove }: IQueue): React.ReactElement | null {
  return queue.length === 0 ? null : (
    <ul className="jctx-queue" aria-label="Queue">
      {queue.map((queued, at) => (
        <li className="q" key={queued.id}>
          <span className="mono quiet">{first === null ? '·' : `[${first + at}]`}</span>
          <span className="cut grow" title={queued.text}>
            {queued.text}
          </span>
          <button
            type="button"
            className="icon"
            aria-label="Edit queued prompt"
            onClick={() => {
              edit(queued);
            }}
          >
            <PenIcon />
          </button>
          <button
            type="button"
            className="icon"
            aria-label="Remove queued prompt"
            onClick={() => {
              remove(queued);
            }}
          >
            <CrossIcon />
          </button>
        </li>
      ))}
    </ul>
  );
}
