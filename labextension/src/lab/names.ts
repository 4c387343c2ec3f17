/** Names that the schema, the commands and the panel share. */

export const PLUGIN = 'jupyter-ctx:plugin';

/** The panel's widget, as the layout restorer knows it. */
export const PANEL = 'jupyter-ctx:panel';

export const COMMANDS = {
  ask: 'jupyter-ctx:ask',
  show: 'jupyter-ctx:show-panel',
  sessions: 'jupyter-ctx:show-sessions',
  stop: 'jupyter-ctx:stop',
  clear: 'jupyter-ctx:new-conversation',
  compact: 'jupyter-ctx:compact',
  askAboutCell: 'jupyter-ctx:ask-about-cell',
  fixError: 'jupyter-ctx:fix-error',
  undoEdit: 'jupyter-ctx:undo-edit',
  settings: 'jupyter-ctx:open-settings'
} as const;
