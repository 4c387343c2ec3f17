/**
 * A permission asked for: what it is about, whole, and three answers.
 *
 * An answer counts only if a person gave it: a trusted click or key, later than `INERT_MS` after
 * the question came into sight. It carries the sha256 of exactly the text that stands here.
 */

import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';
import * as React from 'react';

import type { Choice, IQuestion } from '../panel';
import { Code } from './code';
import { ask, reasonOf, usePlace } from './context';
import { useLatest } from './frame';
import { DownIcon, UpIcon } from './icons';

/** So long a new question takes no answer: who was typing or clicking meant something else. */
export const INERT_MS = 500;

/** What a person reads, as the kernel asked it. */
export function digestOf(question: Pick<IQuestion, 'title' | 'text'>): string {
  return bytesToHex(sha256(utf8ToBytes(`${question.title}\n\n${question.text}`)));
}

/** Whether the question stands where it is seen, long enough. */
function useReady(node: React.RefObject<HTMLElement>): React.MutableRefObject<boolean> {
  const isReady = React.useRef(false);
  React.useEffect(() => {
    const shown = node.current;
    if (!shown) {
      return;
    }
    let timer: ReturnType<typeof setTimeout> | undefined;
    const observer = new IntersectionObserver(entries => {
      clearTimeout(timer);
      isReady.current = false;
      if (entries.some(entry => entry.isIntersecting)) {
        timer = setTimeout(() => {
          isReady.current = true;
        }, INERT_MS);
      }
    });
    observer.observe(shown);
    return () => {
      clearTimeout(timer);
      observer.disconnect();
    };
  }, [node]);
  return isReady;
}

interface IPermission {
  question: IQuestion;
  /** Whether it takes the focus when it appears. */
  takesFocus: boolean;
}

function hasFocus(node: HTMLElement | null): boolean {
  return node?.contains(node.ownerDocument.activeElement) === true;
}

/**
 * Before a question goes, hand its focus to the prompt: the keyboard stays in the panel. Below a
 * cell there is none: what stands around the view takes it, which in a notebook is the cell.
 */
function leaveFocus(node: HTMLElement | null): void {
  if (node && hasFocus(node)) {
    const next = promptBy(node) ?? node.parentElement?.closest<HTMLElement>('[tabindex]');
    next?.focus({ preventScroll: true });
  }
}

function promptBy(node: HTMLElement | null): HTMLTextAreaElement | null {
  const panel = node?.closest('.jctx-panel');
  return panel?.querySelector<HTMLTextAreaElement>('.jctx-box > textarea') ?? null;
}

export function Permission({ question, takesFocus }: IPermission): React.ReactElement {
  const { host } = usePlace();
  const node = React.useRef<HTMLElement>(null);
  const isReady = useReady(node);
  const [isDenying, setIsDenying] = React.useState(false);
  const [isSent, setIsSent] = React.useState(false);
  const [failed, setFailed] = React.useState('');
  const { id, offers } = question;
  const coming = question.change ? (question.coming ?? []) : [];
  const count = coming.length + 1;
  const [at, setAt] = React.useState(0);
  const shown = at > 0 ? (coming[at - 1] ?? null) : null;
  const step = (by: 1 | -1): void => {
    setAt(now => (now + by + count) % count);
  };

  React.useEffect(() => {
    ask(host, 'seen', { question: id }).catch((error: unknown) => {
      setFailed(reasonOf(error));
    });
  }, [host, id]);
  React.useEffect(() => {
    if (takesFocus && !promptBy(node.current)?.value) {
      node.current?.focus({ preventScroll: true });
    }
  }, [takesFocus]);
  React.useLayoutEffect(() => {
    const shown = node.current;
    return () => {
      leaveFocus(shown);
    };
  }, []);

  const decide = useLatest((choice: Choice, word: string, reason: string) => {
    if (isSent) {
      return;
    }
    if (hasFocus(node.current)) {
      node.current?.focus({ preventScroll: true }); // a button that is off would lose it
    }
    setIsSent(true);
    const sha = digestOf(question);
    ask(host, 'decide', { question: id, sha256: sha, choice, word, reason }).then(
      () => undefined, // the log tells how it was taken
      (error: unknown) => {
        setIsSent(false);
        setFailed(reasonOf(error));
      }
    );
  });
  const counts = (event: React.SyntheticEvent): boolean =>
    event.nativeEvent.isTrusted && isReady.current && !isSent;

  const onKey = (event: React.KeyboardEvent): void => {
    if (isDenying || event.ctrlKey || event.metaKey || event.altKey || event.nativeEvent.repeat) {
      return;
    }
    const key = event.key.toLowerCase();
    if (count > 1 && (key === 'j' || key === 'k')) {
      event.preventDefault();
      event.stopPropagation();
      step(key === 'j' ? 1 : -1);
      return;
    }
    if (key !== 'y' && key !== 'n' && (key !== 'a' || offers.length === 0)) {
      if (event.target === node.current && key.length === 1 && key !== ' ') {
        promptBy(node.current)?.focus(); // who types as it appears means the prompt, which gets it
      }
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    if (shown || !counts(event)) {
      return; // what is in sight is not what is asked
    }
    if (key === 'n') {
      setIsDenying(true);
    } else {
      decide(key === 'y' ? 'once' : 'always', key === 'y' ? '' : (offers[0]?.word ?? ''), '');
    }
  };
  const by =
    (act: () => void) =>
    (event: React.SyntheticEvent): void => {
      if (counts(event)) {
        act();
      }
    };

  return (
    <section
      className="jctx-ask"
      role="group"
      aria-label={`Permission request, step ${question.step}`}
      tabIndex={-1}
      ref={node}
      data-lm-suppress-shortcuts="true"
      onKeyDown={onKey}
    >
      {count > 1 && !isDenying && <Changes at={at} count={count} step={step} />}
      <div>
        <h3 aria-level={2}>{shown ? COMING[shown.op] : question.title}</h3>
        <div className="small quiet">{`Step ${question.step}`}</div>
      </div>
      {shown ? (
        <>
          {shown.source !== null && (
            <Code code={shown.source} language={shown.cell_type === 'markdown' ? '' : 'python'} />
          )}
          <div className="small quiet">It is asked about after those before it.</div>
        </>
      ) : (
        <Code code={question.text} language={question.info} />
      )}
      {shown ? null : isDenying ? (
        <Deny
          isSent={isSent}
          deny={reason => {
            decide('deny', '', reason);
          }}
          back={() => {
            setIsDenying(false);
            node.current?.focus({ preventScroll: true });
          }}
        />
      ) : (
        <div className="btns">
          <button
            type="button"
            className="primary"
            disabled={isSent}
            onClick={by(() => {
              decide('once', '', '');
            })}
          >
            Allow once <kbd>Y</kbd>
          </button>
          {offers.map(({ word, label }, at) => (
            <button
              key={word}
              type="button"
              className="plain"
              disabled={isSent}
              title={`For this session: ${label}`}
              onClick={by(() => {
                decide('always', word, '');
              })}
            >
              {at === 0 ? (
                <>
                  <span>
                    <span className="wide-only">Allow for</span>
                    <span className="narrow-only">For</span> session
                  </span>{' '}
                  <kbd>A</kbd>
                </>
              ) : (
                `For session: ${label}`
              )}
            </button>
          ))}
          <button
            type="button"
            className="plain"
            disabled={isSent}
            onClick={by(() => {
              setIsDenying(true);
            })}
          >
            Deny… <kbd>N</kbd>
          </button>
        </div>
      )}
      {offers[0] && !isDenying && !shown && (
        <div className="small quiet">
          {`For session: ${offers[0].label}, until you revoke it by `}
          <code>/permissions</code>.
        </div>
      )}
      {failed !== '' && <div role="alert">{failed}</div>}
    </section>
  );
}

const COMING = {
  edit: 'Comes next: a cell is edited',
  insert: 'Comes next: a cell is inserted',
  delete: 'Comes next: a cell is deleted',
  move: 'Comes next: a cell is moved'
} as const;

interface IChanges {
  at: number;
  count: number;
  step: (by: 1 | -1) => void;
}

/** Which of the changes of one step is in sight, and the way to the others. */
function Changes({ at, count, step }: IChanges): React.ReactElement {
  return (
    <div className="row jctx-changes">
      <span className="grow" role="status">
        <b>{`${count} proposed changes`}</b>{' '}
        <span className="quiet">{`${at + 1} of ${count}`}</span>
      </span>
      {(
        [
          ['Previous change', 'K', -1, UpIcon],
          ['Next change', 'J', 1, DownIcon]
        ] as const
      ).map(([label, key, by, Icon]) => (
        <button
          key={key}
          type="button"
          className="icon"
          aria-label={label}
          aria-keyshortcuts={key}
          title={`${label} (${key})`}
          onClick={() => {
            step(by);
          }}
        >
          <Icon />
        </button>
      ))}
    </div>
  );
}

interface IDeny {
  isSent: boolean;
  deny: (reason: string) => void;
  back: () => void;
}

function Deny({ isSent, deny, back }: IDeny): React.ReactElement {
  const [reason, setReason] = React.useState('');
  const field = React.useRef<HTMLInputElement>(null);
  React.useEffect(() => {
    field.current?.focus({ preventScroll: true });
  }, []);
  const send = (event: React.SyntheticEvent): void => {
    if (event.nativeEvent.isTrusted) {
      deny(reason.trim());
    }
  };
  return (
    <>
      <label>
        <b>Deny: what should the agent do instead?</b>
        <input
          ref={field}
          className="jctx-field"
          value={reason}
          onChange={event => {
            setReason(event.target.value);
          }}
          onKeyDown={event => {
            if (event.key === 'Enter' && !event.nativeEvent.isComposing) {
              event.preventDefault();
              event.stopPropagation();
              send(event);
            } else if (event.key === 'Escape') {
              event.preventDefault();
              event.stopPropagation();
              back();
            }
          }}
        />
      </label>
      <div className="btns">
        <button type="button" className="primary" disabled={isSent} onClick={send}>
          Deny <kbd>Enter</kbd>
        </button>
        <button type="button" className="plain" disabled={isSent} onClick={back}>
          Back <kbd>Esc</kbd>
        </button>
      </div>
    </>
  );
}
