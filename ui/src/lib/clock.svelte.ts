// "12 min ago" moves on by itself, for every place that shows it.
class Clock {
  now = $state(Date.now() / 1000); // seconds

  constructor() {
    setInterval(() => (this.now = Date.now() / 1000), 5000);
  }
}

export const clock = new Clock();
