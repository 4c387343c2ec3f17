/** The divider of a compaction; opened: its summary, its numbers, what it replaced, undo. */

import * as React from 'react';

import { EMPTY, isRunning } from '../conversation';
import type { ICompaction, LogEntry } from '../conversation';
import { reduce } from '../fold';
import type { IReinjected, ISummary } from '../panel';
import { Answer } from './answer';
import { PartBar } from './bar';
import { ask, reasonOf, usePlace } from './context';
import { formatCount, formatShort, percent } from './format';
import { PenIcon, RightIcon } from './icons';
import { NoteBox } from './notes';
import {
  count,
  formatMoney,
  formatSeconds,
  groupReinjected,
  isNamed,
  nameReinjected
} from './words';

interface IDivider {
  compaction: ICompaction;
  /** Whether it happened while this page looked on. */
  isNew: boolean;
  windowTokens: number | null;
  reserveTokens: number | null;
  /** Draws what it replaced; handed in, for turns draw compactions too. */
  drawEntry: (entry: LogEntry) => React.ReactNode;
}

export function Compaction(props: IDivider): React.ReactElement {
  const { compaction, isNew } = props;
  if (isRunning(compaction)) {
    return (
      <div className="jctx-compact bare">
        <b>Compacting</b>
        {compaction.trigger === 'proactive' ? ' in the background' : ''}
      </div>
    );
  }
  if (compaction.failed) {
    const { reason, failures, isPaused } = compaction.failed;
    return (
      <NoteBox
        tone={isPaused ? 'error' : 'plain'}
        title={
          isPaused ? `Compaction is paused after ${count(failures, 'failure')}` : 'Not compacted'
        }
        isNew={isNew}
      >
        <div>{reason}</div>
        {isPaused && (
          <div>
            Run <code>/compact</code> to try again.
          </div>
        )}
      </NoteBox>
    );
  }
  return <Divider {...props} />;
}

function Divider({
  compaction,
  windowTokens,
  reserveTokens,
  drawEntry
}: IDivider): React.ReactElement {
  const [isOpen, setIsOpen] = React.useState(false);
  const { n, done, condition } = compaction;
  const [first, last] = [done?.firstTurn, done?.lastTurn];
  const isOne = first === last;
  const before = done?.tokensBefore ?? 0;
  const after = done?.tokensAfter ?? 0;
  const told = { active: '', edited: ', edited by you', undone: ', undone' }[condition];
  return (
    <details
      className="jctx-compact"
      open={isOpen}
      onToggle={event => {
        if (event.target === event.currentTarget) {
          setIsOpen(event.currentTarget.open);
        }
      }}
    >
      <summary>
        <span className="caret">
          <RightIcon />
        </span>
        <span className="cut">
          <b>Compacted</b>{' '}
          {done && (
            <>
              <span className="more">{isOne ? 'turn ' : 'turns '}</span>
              {isOne ? first : `${first}–${last}`}
            </>
          )}
          {told}
        </span>
        <span className="figures">
          <span className="wide-only">{`· ${formatCount(before)} → ${formatCount(after)} tokens`}</span>
          <span className="narrow-only">{`· ${shortest(before)} → ${shortest(after)}`}</span>
        </span>
      </summary>
      {isOpen && n !== null && (
        <Opened
          n={n}
          condition={condition}
          windowTokens={windowTokens}
          reserveTokens={reserveTokens}
          drawEntry={drawEntry}
        />
      )}
    </details>
  );
}

/** 5.4k, 158k: no digit after the point from ten thousand on. */
function shortest(tokens: number): string {
  return formatShort(tokens < 10_000 ? tokens : Math.round(tokens / 1000) * 1000);
}

interface IOpened extends Pick<IDivider, 'windowTokens' | 'reserveTokens' | 'drawEntry'> {
  n: number;
  /** Read anew when it changes. */
  condition: string;
}

function Opened({ n, condition, ...rest }: IOpened): React.ReactElement {
  const { host } = usePlace();
  const [summary, setSummary] = React.useState<ISummary | null>(null);
  const [failed, setFailed] = React.useState('');
  const read = React.useCallback(async () => {
    try {
      setSummary(await ask(host, 'summary', { n }));
      setFailed('');
    } catch (error) {
      setFailed(reasonOf(error));
    }
  }, [host, n]);
  React.useEffect(() => {
    void read();
  }, [read, condition]);
  return (
    <div className="body">
      {failed !== '' && (
        <div className="part" role="alert">
          {failed}
        </div>
      )}
      {summary === null ? (
        failed === '' && <div className="part quiet">Reading the summary</div>
      ) : (
        <Parts summary={summary} again={read} {...rest} />
      )}
    </div>
  );
}

interface IParts extends Pick<IDivider, 'windowTokens' | 'reserveTokens' | 'drawEntry'> {
  summary: ISummary;
  again: () => Promise<void>;
}

function Parts({
  summary,
  again,
  windowTokens,
  reserveTokens,
  drawEntry
}: IParts): React.ReactElement {
  return (
    <>
      <Numbers summary={summary} windowTokens={windowTokens} reserveTokens={reserveTokens} />
      <Text summary={summary} again={again} />
      <Replaced summary={summary} drawEntry={drawEntry} />
      {summary.reinjected.length > 0 && <Reinjected entries={summary.reinjected} />}
      <Acts summary={summary} again={again} />
    </>
  );
}

function Numbers({
  summary,
  windowTokens,
  reserveTokens
}: Pick<IParts, 'summary' | 'windowTokens' | 'reserveTokens'>): React.ReactElement {
  const { tokens_before: before, tokens_after: after, seconds, cost_usd: cost } = summary;
  const window = Math.max(windowTokens ?? 0, before, after, 1);
  const how = { proactive: 'in the background', reactive: 'window was full', manual: 'by you' };
  const facts = [
    before > 0 ? `${Math.round(percent(before - after, before))} % freed` : '',
    how[summary.trigger],
    formatSeconds(seconds),
    formatMoney(cost)
  ];
  return (
    <div className="part">
      <div className="jctx-ba">
        {(
          [
            ['before', 'Before', before],
            ['after', 'After', after]
          ] as const
        ).map(([key, name, tokens]) => (
          <React.Fragment key={name}>
            <span className="quiet">{name}</span>
            <PartBar
              parts={summary.parts?.[key] ?? null}
              name={name}
              tokens={tokens}
              window={window}
              reserve={reserveTokens}
            />
            <span className="num">{formatCount(tokens)}</span>
          </React.Fragment>
        ))}
      </div>
      <div className="small quiet facts">
        {facts.filter(Boolean).map(fact => (
          <span key={fact}>{fact}</span>
        ))}
      </div>
    </div>
  );
}

function Text({ summary, again }: Pick<IParts, 'summary' | 'again'>): React.ReactElement {
  const { host } = usePlace();
  const [draft, setDraft] = React.useState<string | null>(null);
  const [failed, setFailed] = React.useState('');
  const save = async (): Promise<void> => {
    try {
      await ask(host, 'edit_summary', { n: summary.n, text: draft ?? '' });
      setDraft(null);
      setFailed('');
      await again();
    } catch (error) {
      setFailed(reasonOf(error));
    }
  };
  return (
    <div className="part">
      <div className="row">
        <h3 aria-level={2} className="grow">
          Summary
          {summary.state === 'edited' && <span className="small quiet"> edited by you</span>}
        </h3>
        {draft === null && summary.state !== 'undone' && (
          <button
            type="button"
            className="text"
            onClick={() => {
              setDraft(summary.summary);
            }}
          >
            <PenIcon />
            Edit
          </button>
        )}
      </div>
      {draft === null ? (
        <Answer text={summary.summary} isGrowing={false} />
      ) : (
        <>
          <textarea
            className="jctx-field"
            aria-label="Summary"
            rows={10}
            value={draft}
            onChange={event => {
              setDraft(event.target.value);
            }}
          />
          <div className="btns">
            <button
              type="button"
              className="primary"
              disabled={draft.trim() === ''}
              onClick={() => {
                void save();
              }}
            >
              Save
            </button>
            <button
              type="button"
              className="plain"
              onClick={() => {
                setDraft(null);
              }}
            >
              Back
            </button>
          </div>
        </>
      )}
      {failed !== '' && <div role="alert">{failed}</div>}
    </div>
  );
}

/** So many of the replaced turns are listed before "Show more". */
const FIRST_TURNS = 3;

function Replaced({
  summary,
  drawEntry
}: Pick<IParts, 'summary' | 'drawEntry'>): React.ReactElement {
  const folded = React.useMemo(() => {
    const { log, live } = summary.replaced_items.reduce(reduce, EMPTY);
    return live === null ? log : [...log, live];
  }, [summary.replaced_items]);
  const turns = folded.filter(entry => entry.kind === 'turn');
  const [shown, setShown] = React.useState(FIRST_TURNS);
  const [opened, setOpened] = React.useState<readonly number[]>([]);
  const { first_turn: first, last_turn: last, messages } = summary.replaced;
  return (
    <details className="part" open>
      <summary>
        <span className="caret">
          <RightIcon />
        </span>
        <h3 aria-level={2} className="grow">
          What it replaced
        </h3>
        <span className="small quiet">
          <span className="wide-only">{count(last - first + 1, 'turn')}, </span>
          {count(messages, 'message')}
        </span>
      </summary>
      {turns.slice(0, shown).map(turn => {
        const isOpen = opened.includes(turn.turn);
        return (
          <React.Fragment key={turn.turn}>
            <div className="jctx-replaced">
              <span className="mono quiet">{`[${turn.turn}]`}</span>
              <button
                type="button"
                className="text lnk"
                aria-expanded={isOpen}
                onClick={() => {
                  setOpened(before =>
                    isOpen ? before.filter(one => one !== turn.turn) : [...before, turn.turn]
                  );
                }}
              >
                <span className="cut">{turn.prompt}</span>
              </button>
              <span className="num">
                {turn.end?.tokens != null && formatCount(turn.end.tokens)}
              </span>
            </div>
            {isOpen && drawEntry(turn)}
          </React.Fragment>
        );
      })}
      {turns.length > shown && (
        <div className="small">
          <button
            type="button"
            className="link"
            onClick={() => {
              setShown(turns.length);
            }}
          >
            {`Show ${turns.length - shown} more`}
          </button>
        </div>
      )}
    </details>
  );
}

function Reinjected({ entries }: { entries: readonly IReinjected[] }): React.ReactElement {
  const { host, actions } = usePlace();
  const all = entries.reduce((sum, entry) => sum + entry.tokens, 0);
  return (
    <details className="part" open>
      <summary>
        <span className="caret">
          <RightIcon />
        </span>
        <h3 aria-level={2} className="grow">
          Re-injected
        </h3>
        <span className="small quiet">{`${formatCount(all)} tok`}</span>
      </summary>
      <table>
        <tbody>
          {groupReinjected(entries).map(({ kind, ids, tokens }) => (
            <tr key={kind}>
              <th scope="row">
                {nameReinjected(kind, ids.length)}
                {isNamed(kind) &&
                  ids.map((id, at) => (
                    <React.Fragment key={id}>
                      {at > 0 ? ', ' : ' '}
                      {kind === 'cell' && actions.canOpen ? (
                        <button
                          type="button"
                          className="link"
                          onClick={() => {
                            host.openCell(id);
                          }}
                        >
                          {id}
                        </button>
                      ) : (
                        id
                      )}
                    </React.Fragment>
                  ))}
              </th>
              <td className="num">{formatCount(tokens)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  );
}

function Acts({ summary, again }: Pick<IParts, 'summary' | 'again'>): React.ReactElement {
  const { host } = usePlace();
  const [focus, setFocus] = React.useState<string | null>(null);
  const [failed, setFailed] = React.useState('');
  const id = React.useId();
  const { ok, reason, price } = summary.undo;
  const act = async (call: Promise<unknown>): Promise<void> => {
    try {
      await call;
      setFailed('');
      setFocus(null);
      await again();
    } catch (error) {
      setFailed(reasonOf(error));
    }
  };
  return (
    <div className="part">
      <div className="btns">
        <button
          type="button"
          className="plain"
          disabled={!ok}
          aria-describedby={id}
          onClick={() => {
            void act(ask(host, 'undo_summary', {}));
          }}
        >
          Undo
        </button>
        {focus === null && (
          <button
            type="button"
            className="plain"
            onClick={() => {
              setFocus('');
            }}
          >
            Compact again…
          </button>
        )}
      </div>
      <div className="small quiet" id={id}>
        {ok ? price : reason}
      </div>
      {focus !== null && (
        <form
          onSubmit={event => {
            event.preventDefault();
            void act(ask(host, 'compact', { focus: focus.trim() }));
          }}
        >
          <label>
            What the summary should keep (may be empty)
            <input
              className="jctx-field"
              autoFocus
              value={focus}
              onChange={event => {
                setFocus(event.target.value);
              }}
            />
          </label>
          <div className="btns">
            <button type="submit" className="primary">
              Compact
            </button>
            <button
              type="button"
              className="plain"
              onClick={() => {
                setFocus(null);
              }}
            >
              Back
            </button>
          </div>
        </form>
      )}
      {failed !== '' && <div role="alert">{failed}</div>}
    </div>
  );
}
