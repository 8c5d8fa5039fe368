// Whether we may ask, and whether anybody answers. Every answer of the daemon is heard here.
import { AWAY, onStatus } from './http.ts';

class Session {
  signedOut = $state(false);
  away = $state(false);

  constructor() {
    onStatus((status) => {
      this.away = status === AWAY;
      if (status === 401) this.signedOut = true;
    });
  }

  enter(): void {
    this.signedOut = false;
  }
}

export const session = new Session();
