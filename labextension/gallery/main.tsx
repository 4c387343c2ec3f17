/** Mounts one scene of the gallery: index.html#scene,theme,width; `window.sceneNames` lists all. */

import * as React from 'react';
import { createRoot } from 'react-dom/client';

import '../style/index.css';
import '../style/widget.css';
import type { IConversation } from '../src/conversation';
import { reduce } from '../src/fold';
import { Panel } from '../src/view/panel';
import { GalleryHost } from './host';
import { SCENES } from './scenes';

declare global {
  interface Window {
    sceneNames: readonly string[];
    /** Let so many deltas come, as they come from the kernel. */
    stream: (deltas: number) => Promise<void>;
    sceneCalls: readonly { readonly op: string; readonly args: unknown }[];
  }
}

const [name = '', theme = 'light', width = '480', height = '900'] = decodeURIComponent(
  location.hash.slice(1)
).split(',');

window.sceneNames = Object.keys(SCENES);

const sheet = document.createElement('link');
sheet.rel = 'stylesheet';
sheet.href = `/themes/${theme}.css`;
document.head.append(sheet);
document.body.dataset['jpThemeLight'] = String(theme === 'light');
document.body.style.cssText =
  'margin:0;background:var(--jp-layout-color2);font-family:var(--jp-ui-font-family)';

const scene = SCENES[name];
const main = document.querySelector('main');
if (scene && main) {
  const host = new GalleryHost(name === 'first-run');
  window.sceneCalls = host.calls;
  main.style.cssText = `width:${width}px;height:${height}px`;
  const root = createRoot(main);
  const show = (conversation: IConversation): void => {
    root.render(
      <Panel
        conversation={conversation}
        panelState={scene.state}
        host={host}
        actions={scene.actions}
      />
    );
  };
  show(scene.conversation);
  window.stream = async deltas => {
    let { conversation } = scene;
    for (let at = 0; at < deltas; at += 1) {
      const end = at % 40 === 39 ? ' ends.\n\n' : ' ';
      const text = `${at === 0 ? '\n\n' : ''}word ${at}${end}`;
      conversation = reduce(conversation, { kind: 'text_delta', turn: 7, block: 5, text });
      show(conversation);
      if (at % 5 === 4) {
        await new Promise(done => setTimeout(done));
      }
    }
  };
}
