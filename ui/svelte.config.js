import { vitePreprocess } from '@sveltejs/vite-plugin-svelte';

export default {
  preprocess: vitePreprocess(),
  // 'tree' makes elements one by one: nothing of the page goes through innerHTML.
  compilerOptions: { runes: true, fragments: 'tree' },
};
