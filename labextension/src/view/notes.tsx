/** What stands between the lines: errors, waits, what a command showed. Never a toast. */

import * as React from 'react';

import type { INote, IRetryPart } from '../conversation';
import type { IFailed, IShown } from '../panel';
import { Answer } from './answer';
import { Copy } from './code';
import { ask, reasonOf, usePlace } from './context';
import type { IFault } from './context';
import { AlarmIcon, ClockIcon, CrossIcon, StopIcon } from './icons';
import { formatClock } from './words';

interface INoteBox {
  tone: 'error' | 'wait' | 'plain';
  title: string;
  /** Whether it is told at once; what is read from the past is not. */
  isNew: boolean;
  children?: React.ReactNode;
}

export function NoteBox({ tone, title, isNew, children }: INoteBox): React.ReactElement {
  const tint = { error: ' err', wait: ' warn', plain: '' }[tone];
  const role = isNew ? (tone === 'error' ? 'alert' : 'status') : 'group';
  return (
    <section className={`jctx-note${tint}`} role={role} aria-label={title}>
      <h3 aria-level={2}>
        {tone === 'error' && <AlarmIcon />}
        {tone === 'wait' && <ClockIcon />}
        <span>{title}</span>
      </h3>
      {children}
    </section>
  );
}

const TONES = { info: 'plain', warning: 'wait', error: 'error' } as const;

export const Note = React.memo(function Note({
  note,
  isNew
}: {
  note: INote;
  isNew: boolean;
}): React.ReactElement {
  return (
    <NoteBox tone={TONES[note.level]} title={note.title} isNew={isNew}>
      {note.detail !== '' && <div className="pre">{note.detail}</div>}
    </NoteBox>
  );
});

export const Failed = React.memo(function Failed({
  failed,
  isNew
}: {
  failed: IFailed;
  isNew: boolean;
}): React.ReactElement {
  return (
    <NoteBox tone="error" title={failed.title} isNew={isNew}>
      {failed.detail !== '' && <div className="pre">{failed.detail}</div>}
    </NoteBox>
  );
});

/** What a command showed. */
export const Shown = React.memo(function Shown({ shown }: { shown: IShown }): React.ReactElement {
  return (
    <article className="jctx-turn" aria-label={`Shown by ${shown.command}`}>
      <div className="jctx-from quiet mono">{shown.command}</div>
      {shown.markdown === '' ? (
        <pre className="out" tabIndex={0} role="group" aria-label={shown.command}>
          {shown.text}
        </pre>
      ) : (
        <Answer text={shown.markdown} isGrowing={false} />
      )}
    </article>
  );
});

/** A try that waits: the title counts down in place, the live region keeps to its words. */
export function Retry({ retry }: { retry: IRetryPart }): React.ReactElement {
  const { host } = usePlace();
  const [left, setLeft] = React.useState(() => leftOf(retry, host.now()));
  const [failed, setFailed] = React.useState('');
  React.useEffect(() => {
    const timer = setInterval(() => {
      setLeft(leftOf(retry, host.now()));
    }, 1000);
    return () => {
      clearInterval(timer);
    };
  }, [retry, host]);
  const share = retry.waitS > 0 ? Math.round(100 * (1 - left / retry.waitS)) : 100;
  return (
    <section className="jctx-note warn">
      <h3 aria-level={2}>
        <ClockIcon />
        <span>
          <span role="status">{`${retry.reason} Next try`}</span>
          <span aria-hidden="true">{` in ${formatClock(Math.ceil(left))}`}</span>
        </span>
      </h3>
      <div
        className="jctx-prog"
        role="progressbar"
        aria-label="Wait"
        aria-valuenow={share}
        aria-valuemin={0}
        aria-valuemax={100}
      >
        <i style={{ width: `${share}%` }} />
      </div>
      <div className="small quiet">
        {`Try ${retry.attempt} of ${retry.attempts}. Nothing is lost: step ${retry.step} starts again where it was.`}
      </div>
      <div className="btns">
        <TryNow retry={retry} tell={setFailed} />
        <button
          type="button"
          className="plain stop"
          onClick={() => {
            ask(host, 'stop', {}).catch((error: unknown) => {
              setFailed(reasonOf(error));
            });
          }}
        >
          <StopIcon />
          Stop
        </button>
      </div>
      {failed !== '' && <div role="alert">{failed}</div>}
    </section>
  );
}

/** Ends the wait before a try; `tell` gets the words of what failed, "" before. */
export function TryNow({
  retry,
  tell
}: {
  retry: IRetryPart;
  tell: (failed: string) => void;
}): React.ReactElement {
  const { host } = usePlace();
  const [tried, setTried] = React.useState(0);
  const { turn, step, attempt } = retry;
  return (
    <button
      type="button"
      className="plain"
      disabled={tried === attempt}
      onClick={() => {
        setTried(attempt);
        tell('');
        ask(host, 'try_now', { turn, step, attempt }).catch((error: unknown) => {
          setTried(0);
          tell(reasonOf(error));
        });
      }}
    >
      Try now
    </button>
  );
}

function leftOf({ at, waitS }: IRetryPart, now: number): number {
  return Math.min(waitS, Math.max(0, at + waitS - now / 1000));
}

/** In place of the conversation: why there is none, and what to do. */
export function Fault({ fault }: { fault: IFault }): React.ReactElement {
  const { title, text, command = '', buttons = [], isError = false } = fault;
  return (
    <div className="jctx-first">
      <h2>{title}</h2>
      {isError && (
        <span className="sr" role="alert">
          {title}
        </span>
      )}
      <p>{text}</p>
      {command !== '' && (
        <div className="jctx-code">
          <pre className="code">{command}</pre>
          <div className="acts" role="toolbar" aria-label="Code">
            <Copy text={command} />
          </div>
        </div>
      )}
      {buttons.length > 0 && (
        <div className="btns">
          {buttons.map(({ label, run }, at) => (
            <button
              key={label}
              type="button"
              className={at === 0 ? 'primary' : 'plain'}
              onClick={run}
            >
              {label}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}

/** Something that a press of a button could not do; it stands by that button. */
export function Refusal({
  text,
  close
}: {
  text: string;
  close: () => void;
}): React.ReactElement | null {
  return text === '' ? null : (
    <div className="jctx-note err" role="alert">
      <div className="row">
        <span className="grow">{text}</span>
        <button type="button" className="icon" aria-label="Close" onClick={close}>
          <CrossIcon />
        </button>
      </div>
    </div>
  );
}
