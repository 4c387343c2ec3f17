/** The icon of the panel: a window with its filling, as the gauge draws it. */

import { LabIcon } from '@jupyterlab/ui-components';

const SVG = `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <g class="jp-icon3" fill="#616161">
    <path d="M4 3h16a2 2 0 0 1 2 2v11a2 2 0 0 1-2 2h-7l-5 4v-4H4a2 2 0 0 1-2-2V5a2 2 0 0 1 2-2Zm0 2v11h16V5Z"/>
    <path d="M6 9h3v3H6ZM10 9h5v3h-5Z"/>
  </g>
</svg>`;

export const agentIcon = new LabIcon({ name: 'jupyter-ctx:agent', svgstr: SVG });
