/** The widget: the view of the panel in a cell's output, in any front end that shows anywidgets. */

import * as React from 'react';
import { createRoot } from 'react-dom/client';

import type { CallOp, IEarlier } from './panel';
import { NO_ACTIONS, Place } from './view/context';
import type { IActions, IFault } from './view/context';
import { faultOfFeed } from './view/faults';
import { Fault } from './view/notes';
import { Panel } from './view/panel';
import { OutputHost } from './widget/host';
import { GONE_TEXT, WidgetLink } from './widget/link';
import type { IModel } from './widget/link';
import { Run } from './widget/run';

import '../style/base.css';
import '../style/panel.css';
import '../style/widget.css';

interface IRender {
  readonly model: IModel;
  readonly el: HTMLElement;
}

const GONE: IFault = { title: GONE_TEXT, text: 'Type %agent /panel in a cell to see it again.' };

/** Draw one view of the widget's model into `el`; returns what takes it away. */
function render({ model, el }: IRender): () => void {
  const isCell = model.get('mode') === 'cell';
  const node = document.createElement('div');
  node.className = isCell ? 'jctx in-cell jctx-widget' : 'jctx jctx-widget';
  node.dataset['lmSuppressShortcuts'] = 'true'; // keys here are no commands of the notebook
  if (document.body.dataset['jpThemeLight'] === undefined) {
    const isDark = isDarkPage();
    el.classList.add('jctx-elsewhere', isDark ? 'jctx-dark' : 'jctx-light');
  }
  el.append(node);

  const root = createRoot(node);
  let isDone = false;
  let frame = 0;
  const draw = (): void => {
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      if (!isDone) {
        root.render(view());
      }
    });
  };
  const link = new WidgetLink(model, draw);
  const host = new OutputHost((op, args) => link.ask(op as CallOp, args), node);
  const addEarlier = (answer: IEarlier): void => {
    link.feed.addEarlier(answer);
  };
  const again = (): void => {
    void link.feed.open();
  };
  const view = (): React.ReactElement => {
    const { conversation } = link.feed;
    const fault = link.isGone
      ? GONE
      : faultOfFeed(link.feed.state, conversation.epoch === null, again);
    const canOpen = host.reachesCells;
    const actions: IActions = { ...NO_ACTIONS, canInsert: canOpen, canOpen, fault };
    if (!isCell) {
      return (
        <Panel
          host={host}
          conversation={conversation}
          panelState={link.state}
          actions={actions}
          addEarlier={addEarlier}
        />
      );
    }
    return (
      <Place.Provider value={{ host, actions }}>
        {link.isGone ? (
          <Fault fault={GONE} />
        ) : (
          <Run
            conversation={conversation}
            state={link.state}
            carried={String(model.get('carried'))}
          />
        )}
      </Place.Provider>
    );
  };
  model.on('change:carried', draw);
  draw();
  return () => {
    isDone = true;
    model.off('change:carried', draw);
    link.dispose();
    root.unmount();
    node.remove();
  };
}

function isDarkPage(): boolean {
  const { classList } = document.body;
  return (
    classList.contains('vscode-dark') ||
    classList.contains('vscode-high-contrast') ||
    document.documentElement.getAttribute('theme') === 'dark' ||
    (!classList.contains('vscode-light') && matchMedia('(prefers-color-scheme: dark)').matches)
  );
}

export default { render };
