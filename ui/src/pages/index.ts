// Every page by the first word of its address. A new page is one line here and one file beside this one.
import type { Component } from 'svelte';
import type { IconName } from '../parts/icons.ts';

export interface Page {
  word: string; // #/word/…
  label: string;
  icon: IconName;
  key: string; // after "g"; "" where it is not in the navigation
  load: () => Promise<{ default: Component }>;
}

// The live mosaic and replays are tabs of the run page (run/tabs.ts).
export const PAGES: Page[] = [
  { word: 'runs', label: 'Runs', icon: 'runs', key: 'r', load: () => import('./Runs.svelte') },
  { word: 'new', label: 'New training', icon: 'new', key: 'n', load: () => import('./NewTraining.svelte') },
  { word: 'load', label: 'Load a policy', icon: 'load', key: 'l', load: () => import('./Load.svelte') },
  { word: 'side', label: 'Side by side', icon: 'side', key: 'b', load: () => import('./SideBySide.svelte') },
  { word: 'compare', label: 'Compare', icon: 'compare', key: 'c', load: () => import('./Compare.svelte') },
  { word: 'discoveries', label: 'Discoveries', icon: 'found', key: 'd', load: () => import('./Discoveries.svelte') },
  { word: 'system', label: 'System', icon: 'system', key: 's', load: () => import('./System.svelte') },
  { word: 'play', label: 'Play', icon: 'play', key: '', load: () => import('./Play.svelte') },
  { word: 'run', label: 'Run', icon: 'runs', key: '', load: () => import('./Run.svelte') },
];
