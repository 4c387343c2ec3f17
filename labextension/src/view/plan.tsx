/** The plan above the prompt, and what was kept for later sessions, with its Undo. */

import * as React from 'react';

import type { IMemory } from '../conversation';
import type { IPlanItem, PlanState } from '../panel';
import { ask, reasonOf, usePlace } from './context';
import { CheckIcon, PenIcon, RightIcon } from './icons';
import { NoteBox } from './notes';

const STATE_WORDS: Readonly<Record<PlanState, string>> = {
  pending: 'to do',
  in_progress: 'in progress',
  done: 'done'
};

const MARKS: Readonly<Record<PlanState, string>> = {
  pending: '[ ]',
  in_progress: '[>]',
  done: '[x]'
};

/** The plan as `/plan edit` reads it: a command and a checklist. */
export function planText(plan: readonly IPlanItem[]): string {
  return ['/plan edit', ...plan.map(({ text, state }) => `- ${MARKS[state]} ${text}`)].join('\n');
}

/** What is being done: the first in progress, else the first to do; null: all is done. */
export function currentOf(plan: readonly IPlanItem[]): IPlanItem | null {
  return (
    plan.find(({ state }) => state === 'in_progress') ??
    plan.find(({ state }) => state === 'pending') ??
    null
  );
}

interface IPlan {
  plan: readonly IPlanItem[];
  /** Put a text into the prompt. */
  edit: (text: string) => void;
}

/** One line that says how far it is and what is next; opened, all of it. */
export const Plan = React.memo(function Plan({ plan, edit }: IPlan): React.ReactElement | null {
  if (plan.length === 0) {
    return null;
  }
  const done = plan.filter(({ state }) => state === 'done').length;
  const current = currentOf(plan);
  return (
    <details className="jctx-plan">
      <summary>
        <span className="caret">
          <RightIcon />
        </span>
        <span>Plan</span>
        <span className="quiet num">{`${done} of ${plan.length}`}</span>
        <span className="cut grow quiet now">
          {current === null ? '· all done' : `· ${current.text}`}
        </span>
      </summary>
      <ol aria-label="Plan">
        {plan.map(({ text, state }, at) => (
          <li key={at} className={state}>
            <span className="mark" aria-hidden="true">
              {state === 'done' ? <CheckIcon /> : <i className={`jctx-dot ${state}`} />}
            </span>
            <span className="sr">{`${STATE_WORDS[state]}: `}</span>
            <span className="grow">{text}</span>
          </li>
        ))}
      </ol>
      <div className="acts">
        <button
          type="button"
          className="text"
          onClick={() => {
            edit(planText(plan));
          }}
        >
          <PenIcon />
          Edit in the prompt
        </button>
      </div>
    </details>
  );
});

/** Facts that were kept for later sessions; Undo takes them out again. */
export const Remembered = React.memo(function Remembered({
  memory,
  isNew
}: {
  memory: IMemory;
  isNew: boolean;
}): React.ReactElement {
  const { host } = usePlace();
  const [isAsked, setIsAsked] = React.useState(false);
  const [failed, setFailed] = React.useState('');
  const { facts, undone } = memory;
  const left = facts.filter(fact => !undone.includes(fact));
  return (
    <NoteBox
      tone="plain"
      title={left.length === 0 ? 'Taken out of the memory' : 'Kept for later sessions'}
      isNew={isNew}
    >
      <div className="jctx-kept">
        <ul className="grow">
          {facts.map(fact =>
            undone.includes(fact) ? (
              <li key={fact} className="quiet">
                <s>{fact}</s>
                <span className="sr"> taken out</span>
              </li>
            ) : (
              <li key={fact}>{fact}</li>
            )
          )}
        </ul>
        <button
          type="button"
          className={left.length === 0 ? 'text gone' : 'text'}
          disabled={left.length === 0 || isAsked}
          onClick={() => {
            setIsAsked(true);
            setFailed('');
            ask(host, 'forget', { facts: left })
              .catch((error: unknown) => {
                setFailed(reasonOf(error));
              })
              .finally(() => {
                setIsAsked(false);
              });
          }}
        >
          Undo
        </button>
      </div>
      {failed !== '' && <div role="alert">{failed}</div>}
    </NoteBox>
  );
});
