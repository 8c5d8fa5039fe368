// Light or dark: as the system says, until the switch says otherwise.
export type Theme = 'light' | 'dark';
const STORED = 'palaestra.theme';

class ThemeChoice {
  private system: Theme = $state(matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
  private chosen: Theme | null = $state(stored());

  constructor() {
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', (event) => {
      this.system = event.matches ? 'dark' : 'light';
      this.show();
    });
    this.show();
  }

  get now(): Theme {
    return this.chosen ?? this.system;
  }

  /** Going back to what the system says forgets the choice: it follows the system again. */
  toggle(): void {
    const next: Theme = this.now === 'dark' ? 'light' : 'dark';
    this.chosen = next === this.system ? null : next;
    if (this.chosen) localStorage.setItem(STORED, this.chosen);
    else localStorage.removeItem(STORED);
    this.show();
  }

  private show(): void {
    document.documentElement.dataset['theme'] = this.now;
  }
}

function stored(): Theme | null {
  const word = localStorage.getItem(STORED);
  return word === 'light' || word === 'dark' ? word : null;
}

export const theme = new ThemeChoice();
