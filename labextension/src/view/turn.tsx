/** One turn: the prompt as a numbered input box, then what came of it. */

import * as React from 'react';

import type { Aside, IThinkingPart, IToolPart, ITurn, TurnPart } from '../conversation';
import type { IQuestion } from '../panel';
import { Answer } from './answer';
import { Copy } from './code';
import { ask, reasonOf, usePlace } from './context';
import { formatCount, formatShort } from './format';
import { NoteBox, Retry } from './notes';
import { Permission } from './permission';
import { FoldedRows, hasFigure, Rows } from './steps';
import { formatMoney, formatTime } from './words';

interface ITurnView {
  turn: ITurn;
  isLive: boolean;
  /** Whether it is the newest: its prompt can be edited and sent again. */
  isLast: boolean;
  question: IQuestion | null;
  takesFocus: boolean;
  drawAside: (aside: Aside, isNew: boolean) => React.ReactNode;
  /** Put the prompt back into the box, to be changed and sent again; absent in a summary. */
  edit?: ((text: string) => void) | undefined;
}

export const Turn = React.memo(function Turn(props: ITurnView): React.ReactElement {
  const { turn, isLive, isLast, question, takesFocus, drawAside, edit } = props;
  return (
    <article
      className={isLive || isLast ? 'jctx-turn' : 'jctx-turn past'}
      aria-label={`Turn ${turn.turn}`}
      aria-busy={isLive}
    >
      <div className="no" aria-hidden="true">{`[${turn.turn}]`}</div>
      <Prompt turn={turn} />
      <Body turn={turn} isLive={isLive} drawAside={drawAside} />
      {question && <Permission key={question.id} question={question} takesFocus={takesFocus} />}
      {turn.end && <End turn={turn} isLast={isLast} edit={edit} />}
    </article>
  );
});

function Prompt({ turn }: { turn: ITurn }): React.ReactElement {
  const plain = turn.attachments.filter(({ label }) => !turn.prompt.includes(label));
  return (
    <div className="jctx-prompt">
      <span className="sr">{`You, turn ${turn.turn}: `}</span>
      <Mentions text={turn.prompt} />
      {plain.length > 0 && (
        <ul className="jctx-att" aria-label="Attachments">
          {plain.map(({ label, detail }) => (
            <li key={label}>
              <code>{label}</code>
              <span className="quiet cut">{detail}</span>
            </li>
          ))}
        </ul>
      )}
      {turn.origin === 'cell' && (
        <div className="small quiet jctx-from">from a cell, by %agent</div>
      )}
    </div>
  );
}

const MENTION = /(^|[\s(])(@(?!@)[^\s@,;()]*[^\s@,;().?!:])/g;

/** Text with its mentions in the colour of links; the text itself stays as it is. */
export const Mentions = React.memo(function Mentions({
  text
}: {
  text: string;
}): React.ReactElement {
  const pieces: React.ReactNode[] = [];
  let from = 0;
  for (const found of text.matchAll(MENTION)) {
    const at = found.index + (found[1]?.length ?? 0);
    const mention = found[2] ?? '';
    pieces.push(
      text.slice(from, at),
      <span key={at} className="mention">
        {mention}
      </span>
    );
    from = at + mention.length;
  }
  pieces.push(text.slice(from));
  return <>{pieces}</>;
});

type Group =
  | { readonly kind: 'rows'; readonly parts: (IToolPart | IThinkingPart)[] }
  | { readonly kind: 'other'; readonly part: Exclude<TurnPart, IToolPart | IThinkingPart> };

function groupsOf(parts: readonly TurnPart[]): Group[] {
  const groups: Group[] = [];
  for (const part of parts) {
    if (part.kind !== 'tool' && part.kind !== 'thinking') {
      groups.push({ kind: 'other', part });
      continue;
    }
    const last = groups[groups.length - 1];
    if (last?.kind === 'rows') {
      last.parts.push(part);
    } else {
      groups.push({ kind: 'rows', parts: [part] });
    }
  }
  return groups;
}

function Body({
  turn,
  isLive,
  drawAside
}: Pick<ITurnView, 'turn' | 'isLive' | 'drawAside'>): React.ReactElement {
  const node = React.useRef<HTMLDivElement>(null);
  // A row that the reader has open stays where it is when the turn ends: nothing moves then.
  const [wasLive, setWasLive] = React.useState(isLive);
  const [folds, setFolds] = React.useState(!isLive);
  React.useLayoutEffect(() => {
    if (wasLive && !isLive) {
      setWasLive(false);
      setFolds(node.current?.querySelector('details[open]') === null);
    }
  }, [wasLive, isLive]);
  const groups = groupsOf(turn.parts);
  const rows = groups.flatMap(group => (group.kind === 'rows' ? group.parts : []));
  const folded = rows.filter(part => !hasFigure(part));
  const isFolded = folds && !isLive && folded.filter(part => part.kind === 'tool').length > 1;
  return (
    <div className="jctx-body" ref={node}>
      {isFolded && <FoldedRows parts={folded} steps={turn.end?.steps ?? null} />}
      {groups.map((group, at) =>
        group.kind === 'rows' ? (
          <Rows key={at} parts={isFolded ? group.parts.filter(hasFigure) : group.parts} />
        ) : (
          <Part key={at} part={group.part} isLive={isLive} drawAside={drawAside} />
        )
      )}
    </div>
  );
}

function Part({
  part,
  isLive,
  drawAside
}: {
  part: Exclude<TurnPart, IToolPart | IThinkingPart>;
  isLive: boolean;
  drawAside: ITurnView['drawAside'];
}): React.ReactElement | null {
  switch (part.kind) {
    case 'text':
      return <Answer text={part.text} isGrowing={isLive && !part.isDone} />;
    case 'retry':
      return part.isOver || !isLive ? null : <Retry retry={part} />;
    case 'compaction':
    case 'note':
    case 'memory':
    case 'shown':
    case 'failed':
      return <>{drawAside(part, isLive)}</>;
  }
}

function End({
  turn,
  isLast,
  edit
}: Pick<ITurnView, 'turn' | 'isLast' | 'edit'>): React.ReactElement | null {
  const { end } = turn;
  if (!end) {
    return null;
  }
  return (
    <>
      {end.outcome === 'failed' && end.error !== null && <Broken error={end.error} />}
      {end.outcome === 'stopped' && (
        <div className="small quiet">{end.error ?? stoppedLine(turn)}</div>
      )}
      <Foot turn={turn} isLast={isLast} edit={edit} />
    </>
  );
}

function stoppedLine({ step }: ITurn): string {
  return step > 0
    ? `Stopped by you at step ${step}. Code that had run stays run.`
    : 'Stopped by you. Nothing had run.';
}

/** Its first line is the title, what follows is kept below. */
function Broken({ error }: { error: string }): React.ReactElement {
  const [title = '', ...rest] = error.split('\n');
  const detail = rest.join('\n').trim();
  return (
    <NoteBox tone="error" title={title} isNew>
      {detail !== '' && <div className="pre">{detail}</div>}
    </NoteBox>
  );
}

function Foot({
  turn,
  isLast,
  edit
}: Pick<ITurnView, 'turn' | 'isLast' | 'edit'>): React.ReactElement | null {
  const { host } = usePlace();
  const [asks, setAsks] = React.useState<'rewind' | 'edit' | null>(null);
  const [failed, setFailed] = React.useState('');
  const { end } = turn;
  if (!end) {
    return null;
  }
  const text = turn.parts.flatMap(part => (part.kind === 'text' ? [part.text] : [])).join('\n\n');
  const facts = [formatMoney(end.costUsd), formatTime(turn.at + (end.seconds ?? 0))].filter(
    Boolean
  );
  const rewind = async (): Promise<void> => {
    try {
      // First: a prompt that cannot come back whole is not taken out of the conversation.
      const prompt = asks === 'edit' ? await ask(host, 'prompt', { turn: turn.turn }) : null;
      await ask(host, 'rewind', { turn: turn.turn });
      if (prompt) {
        edit?.(prompt.text);
      }
      setAsks(null);
    } catch (error) {
      setFailed(reasonOf(error));
    }
  };
  return (
    <>
      <div className="jctx-foot">
        <span className="grow" title={end.footer}>
          {end.tokens !== null && (
            <>
              <span className="wide-only">{`${formatCount(end.tokens)} tokens · `}</span>
              <span className="narrow-only">{`${formatShort(end.tokens)} · `}</span>
            </>
          )}
          {facts.join(' · ')}
        </span>
        {text !== '' && <Copy text={text} />}
        {edit && isLast && (
          <button
            type="button"
            className="text"
            onClick={() => {
              setAsks('edit');
            }}
          >
            <span>
              Edit<span className="wide-only"> prompt</span>
            </span>
          </button>
        )}
        {edit && (
          <button
            type="button"
            className="text"
            aria-label={`Rewind to before turn ${turn.turn}`}
            onClick={() => {
              setAsks('rewind');
            }}
          >
            <span>
              Rewind<span className="wide-only">{` to [${turn.turn}]`}</span>
            </span>
          </button>
        )}
      </div>
      {asks !== null && (
        <div className="jctx-note" role="group" aria-label="Rewind">
          <div>
            {`Go back to before turn ${turn.turn}: it and all behind it are taken out of the conversation, and cell and file edits made since are undone. Variables stay.`}
          </div>
          <div className="btns">
            <button
              type="button"
              className="primary"
              autoFocus
              onClick={() => {
                void rewind();
              }}
            >
              {asks === 'edit' ? 'Rewind and edit' : 'Rewind'}
            </button>
            <button
              type="button"
              className="plain"
              onClick={() => {
                setAsks(null);
              }}
            >
              Keep
            </button>
          </div>
          {failed !== '' && <div role="alert">{failed}</div>}
        </div>
      )}
    </>
  );
}
