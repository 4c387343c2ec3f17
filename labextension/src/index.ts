/** The plugin: links the notebooks to their kernels, and wires the gauge to them. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';

import { CurrentNotebook } from './lab/current';
import { GaugeItem } from './lab/gauge';
import type { GaugeDisplay } from './lab/gauge';
import { followQuestions } from './lab/questions';

const PLUGIN = 'jupyter-ctx:plugin';

/** Where the gauge stands among the status bar's items on the right. */
const RANK = 900;

const plugin: JupyterFrontEndPlugin<void> = {
  id: PLUGIN,
  description:
    "Shows how full the agent's context window is, and lets the agent edit the notebook.",
  autoStart: true,
  requires: [INotebookTracker],
  optional: [IStatusBar, ISettingRegistry],
  activate: (
    app: JupyterFrontEnd,
    tracker: INotebookTracker,
    statusBar: IStatusBar | null,
    settings: ISettingRegistry | null
  ): void => {
    const notebooks = new CurrentNotebook(tracker, app.shell);
    followQuestions();
    if (!statusBar) {
      return;
    }
    const gauge = new GaugeItem(notebooks);
    statusBar.registerStatusItem(PLUGIN, {
      item: gauge,
      align: 'right',
      rank: RANK,
      priority: 1,
      isActive: () => gauge.isActive,
      activeStateChanged: gauge.activeChanged
    });
    if (settings) {
      void followSettings(settings, gauge);
    }
  }
};

async function followSettings(registry: ISettingRegistry, gauge: GaugeItem): Promise<void> {
  const settings = await registry.load(PLUGIN);
  const apply = (): void => {
    gauge.display = settings.get('gauge').composite as GaugeDisplay;
  };
  settings.changed.connect(apply);
  apply();
}

export default plugin;
