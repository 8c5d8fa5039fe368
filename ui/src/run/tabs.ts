// The tabs of a run's page, by the last word of its address: #/run/ID/log. A new one is a line here and a file beside.
import type { Component } from 'svelte';
import type { RunWatch } from '../lib/run_watch.svelte.ts';
import type { Run } from '../lib/types.ts';
import Live from '../live/Live.svelte';
import Replays from '../replay/Replays.svelte';
import Checkpoints from './Checkpoints.svelte';
import Config from './Config.svelte';
import Evaluations from './Evaluations.svelte';
import { isEvaluation } from './evaluation.ts';
import Files from './Files.svelte';
import Log from './Log.svelte';
import Overview from './Overview.svelte';
import Plots from './Plots.svelte';
import TensorBoard from './TensorBoard.svelte';
import Videos from './Videos.svelte';

export interface TabProps {
  watch: RunWatch;
  run: Run;
}

export interface Tab {
  word: string;
  label: string;
  shows: Component<TabProps>;
  isOfTrainings?: boolean; // an evaluation has none
}

const TABS: Tab[] = [
  { word: 'overview', label: 'Overview', shows: Overview },
  { word: 'live', label: 'Live', shows: Live },
  { word: 'plots', label: 'Plots', shows: Plots },
  { word: 'log', label: 'Log', shows: Log },
  { word: 'config', label: 'Config', shows: Config },
  { word: 'checkpoints', label: 'Checkpoints', shows: Checkpoints, isOfTrainings: true },
  { word: 'evaluations', label: 'Evaluations', shows: Evaluations },
  { word: 'videos', label: 'Videos', shows: Videos },
  { word: 'replays', label: 'Replays', shows: Replays },
  { word: 'files', label: 'Files', shows: Files },
  { word: 'tensorboard', label: 'TensorBoard', shows: TensorBoard },
];

export const tabsOf = (run: Run): Tab[] => TABS.filter((one) => !(one.isOfTrainings && isEvaluation(run)));
