/** The stored sessions: searched, gone on with, deleted and taken back. In place of the log. */

import * as React from 'react';

import { CallError } from '../host';
import type { IHost } from '../host';
import type { ISessionRow, ISessions } from '../panel';
import { formatWhen, groupRows, markWords } from '../sessions';
import type { IGroup } from '../sessions';
import { ask, reasonOf, usePlace } from './context';
import { formatCount } from './format';
import { useLatest } from './frame';
import { CrossIcon, LockIcon, SearchIcon, TrashIcon } from './icons';
import { Refusal } from './notes';
import { count, formatMoney } from './words';

interface ISessionList {
  /** Back to the conversation, which may be another one now. */
  close: () => void;
  /** Whether the agent waits for an answer there. */
  isAwaited: boolean;
  /** Whether a turn runs. */
  isRunning: boolean;
}

/** What may be done with the list from outside. */
export interface ISessionListHandle {
  focus: () => void;
}

export const SessionList = React.forwardRef<ISessionListHandle, ISessionList>(function SessionList(
  { close, isAwaited, isRunning },
  handle
) {
  const { host } = usePlace();
  const [text, setText] = React.useState('');
  const { found, most, failed, look } = useSearch(host);
  const [chosen, setChosen] = React.useState<string | null>(null);
  const [refused, setRefused] = React.useState('');
  const [held, setHeld] = React.useState<IHeld | null>(null);
  const [isOpening, setIsOpening] = React.useState(false);
  const [deleted, setDeleted] = React.useState<ReadonlySet<string>>(NONE);
  const field = React.useRef<HTMLInputElement>(null);
  const list = React.useRef<HTMLDivElement>(null);
  const id = React.useId();

  React.useEffect(() => {
    look('', false);
    field.current?.focus();
  }, [look]);
  React.useImperativeHandle(handle, () => ({ focus: () => field.current?.focus() }), []);
  // A turn that begins or ends meanwhile changes the row of this session.
  const again = useLatest(() => {
    if (found) {
      look(text, found.full && found.text === text);
    }
  });
  React.useEffect(() => {
    again();
  }, [again, isRunning]);

  const groups = found ? groupsOf(found.answer, deleted, host.now()) : [];
  const rows = groups.flatMap(group => group.rows);
  const at = Math.max(
    0,
    rows.findIndex(row => row.id === chosen)
  );
  const active = rows[at];
  React.useEffect(() => {
    list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: 'nearest' });
  }, [active?.id]);

  const search = useLatest((words: string, full: boolean) => {
    setText(words);
    setChosen(null);
    setRefused('');
    setHeld(null);
    look(words, full);
  });
  const open = useLatest((row: ISessionRow, copy: boolean) => {
    if (isOpening) {
      return;
    }
    setRefused('');
    setHeld(null);
    if (row.state === 'here' && !copy) {
      close();
      return;
    }
    setIsOpening(true);
    ask(host, 'resume', { id: row.id, copy })
      .then(close, (error: unknown) => {
        if (error instanceof CallError && error.kind === 'elsewhere') {
          setHeld({ row, why: error.message });
        } else {
          setRefused(reasonOf(error));
        }
      })
      .finally(() => {
        setIsOpening(false);
      });
  });
  const attempt = useLatest((call: Promise<unknown>, done: () => void) => {
    setRefused('');
    call.then(done, (error: unknown) => {
      setRefused(reasonOf(error));
    });
  });
  const remove = useLatest((row: ISessionRow) => {
    setChosen(row.id);
    attempt(ask(host, 'delete_session', { id: row.id }), () => {
      setDeleted(before => new Set([...before, row.id]));
    });
  });
  const takeBack = useLatest((row: ISessionRow) => {
    setChosen(row.id);
    attempt(ask(host, 'restore_session', { id: row.id }), () => {
      setDeleted(before => new Set([...before].filter(one => one !== row.id)));
      look(found?.text ?? '', found?.full ?? false);
    });
  });
  const take = (row: ISessionRow, copy: boolean): void => {
    if (row.state === 'deleted') {
      takeBack(row);
    } else {
      open(row, copy);
    }
  };

  /** Keys that do the same in the box and in the list; whether one was taken. */
  const onKey = (event: React.KeyboardEvent): boolean => {
    const to = { ArrowDown: at + 1, ArrowUp: at - 1 }[event.key];
    if (to !== undefined) {
      setChosen(rows[Math.min(Math.max(to, 0), rows.length - 1)]?.id ?? null);
      list.current?.focus();
    } else if (event.key === 'Enter' && !event.nativeEvent.isComposing) {
      if (active && found?.text === text) {
        take(active, event.ctrlKey || event.metaKey);
      }
    } else if (event.key === 'Escape' && held) {
      setHeld(null);
    } else if (event.key === 'Escape') {
      close();
    } else {
      return false;
    }
    return true;
  };
  const onListKey = (event: React.KeyboardEvent): boolean => {
    const end = { Home: 0, End: rows.length - 1 }[event.key];
    if (end !== undefined) {
      setChosen(rows[end]?.id ?? null);
    } else if (event.key === 'ArrowUp' && at === 0) {
      field.current?.focus();
    } else if (event.key === 'Delete' && active && active.state !== 'deleted') {
      remove(active);
    } else {
      return onKey(event);
    }
    return true;
  };
  const taking =
    (on: (event: React.KeyboardEvent) => boolean) =>
    (event: React.KeyboardEvent): void => {
      if (on(event)) {
        event.preventDefault();
        event.stopPropagation();
      }
    };

  return (
    <div className="jctx-shelf">
      <div className="jctx-find">
        <SearchIcon />
        <input
          ref={field}
          className="grow"
          type="text"
          role="combobox"
          aria-label="Search sessions"
          aria-expanded={rows.length > 0}
          aria-controls={id}
          aria-autocomplete="list"
          aria-activedescendant={active && `${id}-${active.id}`}
          placeholder="Search titles and prompts"
          spellCheck={false}
          value={text}
          onChange={event => {
            search(event.target.value, false);
          }}
          onKeyDown={taking(event => {
            if (event.key === 'Escape' && text !== '' && !held) {
              search('', false);
              return true;
            }
            return onKey(event);
          })}
        />
        {found && found.text.trim() !== '' && (
          <span className="small quiet wide-only">
            {`${formatCount(found.answer.total)} of ${formatCount(most)}`}
          </span>
        )}
        {text !== '' && (
          <button
            type="button"
            className="icon"
            aria-label="Clear search"
            onClick={() => {
              search('', false);
              field.current?.focus();
            }}
          >
            <CrossIcon />
          </button>
        )}
      </div>
      <div className="jctx-shelf-body">
        {rows.length > 0 && (
          <div
            ref={list}
            id={id}
            role="listbox"
            aria-label="Sessions"
            aria-busy={isOpening}
            aria-activedescendant={active && `${id}-${active.id}`}
            tabIndex={0}
            onKeyDown={taking(onListKey)}
          >
            {groups.map(group => (
              <div key={group.name} role="group" aria-label={group.name}>
                <div className="jctx-grp" aria-hidden="true">
                  {group.name}
                </div>
                {group.rows.map(row => (
                  <Row
                    key={row.id}
                    id={`${id}-${row.id}`}
                    row={row}
                    searched={found?.text ?? ''}
                    isActive={row === active}
                    now={host.now()}
                    take={take}
                    remove={remove}
                  />
                ))}
              </div>
            ))}
          </div>
        )}
        <Left found={found} failed={failed} rows={rows} search={search} />
      </div>
      {held && (
        <Held
          held={held}
          copy={() => {
            open(held.row, true);
          }}
          back={() => {
            setHeld(null);
            list.current?.focus();
          }}
        />
      )}
      <div className="jctx-shelf-foot">
        <Refusal
          text={refused}
          close={() => {
            setRefused('');
            field.current?.focus();
          }}
        />
        {isAwaited && (
          <button type="button" className="text" onClick={close}>
            <span className="jctx-dot wait" aria-hidden="true" />
            <span className="cut">Waiting for you: go back</span>
          </button>
        )}
        <div className="small quiet">
          Enter resumes · Ctrl Enter opens a copy · Del deletes, with undo
        </div>
      </div>
      <div className="sr" role="status">
        {found && found.text === text && said(found)}
      </div>
    </div>
  );
});

const NONE: ReadonlySet<string> = new Set();

// What is searched ---------------------------------------------------------------------------------

interface IFound {
  readonly text: string;
  readonly full: boolean;
  readonly answer: ISessions;
}

interface ISearch {
  readonly found: IFound | null;
  /** How many sessions there are. */
  readonly most: number;
  readonly failed: string;
  look: (text: string, full: boolean) => void;
}

/** Asks as the text changes, one call at a time: what was typed meanwhile is asked for next. */
function useSearch(host: IHost): ISearch {
  const [found, setFound] = React.useState<IFound | null>(null);
  const [most, setMost] = React.useState(0);
  const [failed, setFailed] = React.useState('');
  const wanted = React.useRef<{ text: string; full: boolean } | null>(null);
  const isAsking = React.useRef(false);
  const run = useLatest(async () => {
    while (wanted.current) {
      const query = wanted.current;
      wanted.current = null;
      const answer = await ask(host, 'sessions', query);
      setFound({ ...query, answer });
      setFailed('');
      if (query.text.trim() === '') {
        setMost(answer.total);
      }
    }
  });
  const look = useLatest((text: string, full: boolean) => {
    wanted.current = { text, full };
    if (isAsking.current) {
      return;
    }
    isAsking.current = true;
    run()
      .catch((error: unknown) => {
        wanted.current = null;
        setFailed(reasonOf(error));
      })
      .finally(() => {
        isAsking.current = false;
      });
  });
  return { found, most, failed, look };
}

/** The rows in their order: those deleted here stay where they stood. */
function groupsOf(answer: ISessions, deleted: ReadonlySet<string>, now: number): IGroup[] {
  const rows = answer.rows.map(row =>
    deleted.has(row.id) ? { ...row, state: 'deleted' as const } : row
  );
  const there = new Set(rows.map(row => row.id));
  const trashed = answer.trashed.filter(row => !there.has(row.id));
  const groups = groupRows(rows, now);
  return trashed.length === 0 ? groups : [...groups, { name: 'Deleted', rows: trashed }];
}

function said({ text, answer }: IFound): string {
  return text.trim() === '' ? '' : `${count(answer.total, 'session')} found`;
}

// One session --------------------------------------------------------------------------------------

interface IRow {
  id: string;
  row: ISessionRow;
  searched: string;
  isActive: boolean;
  now: number;
  take: (row: ISessionRow, copy: boolean) => void;
  remove: (row: ISessionRow) => void;
}

/** What its two spans do by the mouse, keys of the list do: an option holds no controls. */
function Row({ id, row, searched, isActive, now, take, remove }: IRow): React.ReactElement {
  const { state } = row;
  const isGone = state === 'deleted';
  const title = row.title === '' ? 'New session' : row.title;
  const classes = ['jctx-ses', isActive && 'on', isGone && 'gone', state === 'here' && 'here'];
  const keepFocus = (event: React.MouseEvent): void => {
    event.preventDefault();
  };
  return (
    <div
      id={id}
      role="option"
      aria-selected={isActive}
      aria-current={state === 'here' ? 'true' : undefined}
      className={classes.filter(Boolean).join(' ')}
      title={title}
      onMouseDown={keepFocus}
      onClick={event => {
        if (!isGone) {
          take(row, event.ctrlKey || event.metaKey);
        }
      }}
    >
      <div className="row">
        <span className="cut grow name">
          {isGone ? <s>{title}</s> : <Marked text={title} searched={searched} />}
        </span>
        <span className="end">
          <span className="small quiet time">{formatWhen(row.updated, now)}</span>
          {state === '' && (
            <span
              className="bin"
              aria-hidden="true"
              title="Delete"
              onClick={event => {
                event.stopPropagation();
                remove(row);
              }}
            >
              <TrashIcon />
            </span>
          )}
        </span>
      </div>
      {!isGone && row.excerpt !== '' && row.found !== 'title' && (
        <div className="small cut">
          <Marked text={row.excerpt} searched={searched} />
        </div>
      )}
      <div className="meta quiet">
        <span className="cut grow">{row.notebook ?? ''}</span>
        {isGone ? (
          <>
            <span>
              deleted<span className="sr">, Enter takes it back</span>
            </span>
            <span
              className="undo"
              aria-hidden="true"
              onClick={event => {
                event.stopPropagation();
                take(row, false);
              }}
            >
              Undo
            </span>
          </>
        ) : (
          <>
            <span>{stateText(row)}</span>
            <span className="money">{formatMoney(row.cost_usd)}</span>
          </>
        )}
      </div>
    </div>
  );
}

function stateText({ state, turns }: ISessionRow): string {
  if (state === 'elsewhere') {
    return 'in another kernel';
  }
  return turns === null ? '' : count(turns, 'turn');
}

function Marked({ text, searched }: { text: string; searched: string }): React.ReactElement {
  return (
    <>
      {markWords(text, searched).map((piece, at) =>
        piece.isFound ? <mark key={at}>{piece.text}</mark> : piece.text
      )}
    </>
  );
}

// Around the rows ----------------------------------------------------------------------------------

interface ILeft {
  found: IFound | null;
  failed: string;
  rows: readonly ISessionRow[];
  search: (text: string, full: boolean) => void;
}

/** Below the rows: that there are none, or more, or where else to search. */
function Left({ found, failed, rows, search }: ILeft): React.ReactElement {
  if (failed !== '') {
    return (
      <div className="jctx-none" role="alert">
        {failed}
      </div>
    );
  }
  if (!found) {
    return <div className="jctx-none quiet">Reading the sessions</div>;
  }
  const { text, full, answer } = found;
  const words = text.trim();
  const more = answer.total - answer.rows.length;
  if (words === '' && rows.every(row => row.state === 'here')) {
    return (
      <div className="jctx-none">
        <b>No other session yet</b>
        <div className="quiet">What is asked in any notebook is listed here, to go on with.</div>
      </div>
    );
  }
  return (
    <div className="jctx-none">
      {rows.length === 0 && (
        <b>
          {full
            ? `No message has “${words}”`
            : `No session has “${words}” in its title or a prompt`}
        </b>
      )}
      {more > 0 && (
        <div className="small quiet">{`${formatCount(more)} more: the search finds them`}</div>
      )}
      {words !== '' && !full && (
        <button
          type="button"
          className="plain"
          onClick={() => {
            search(text, true);
          }}
        >
          Search every message
        </button>
      )}
    </div>
  );
}

interface IHeld {
  readonly row: ISessionRow;
  readonly why: string;
}

/** Another kernel has it: nothing is opened before this is answered. */
function Held(props: { held: IHeld; copy: () => void; back: () => void }): React.ReactElement {
  const { held, copy, back } = props;
  const primary = React.useRef<HTMLButtonElement>(null);
  const title = 'This session is open in another kernel';
  React.useEffect(() => {
    primary.current?.focus();
  }, [held]);
  return (
    <section
      className="jctx-note"
      role="alertdialog"
      aria-label={title}
      onKeyDown={event => {
        if (event.key === 'Escape') {
          event.preventDefault();
          event.stopPropagation();
          back();
        }
      }}
    >
      <h3 aria-level={2}>
        <LockIcon />
        <span>{title}</span>
      </h3>
      <div>{held.why}</div>
      <div className="btns">
        <button ref={primary} type="button" className="primary" onClick={copy}>
          Continue in a copy
        </button>
        <button type="button" className="plain" onClick={back}>
          Back
        </button>
      </div>
    </section>
  );
}
