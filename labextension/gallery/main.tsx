/** Mounts one scene of the gallery: index.html#scene,theme,width; `window.sceneNames` lists all. */

import * as React from 'react';
import { createRoot } from 'react-dom/client';

import '../style/index.css';
import '../style/widget.css';
import { Panel } from '../src/view/panel';
import { GalleryHost } from './host';
import { SCENES } from './scenes';

declare global {
  interface Window {
    sceneNames: readonly string[];
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
  const host = new GalleryHost();
  window.sceneCalls = host.calls;
  main.style.cssText = `width:${width}px;height:${height}px`;
  createRoot(main).render(
    <Panel
      conversation={scene.conversation}
      panelState={scene.state}
      host={host}
      actions={scene.actions}
    />
  );
}
