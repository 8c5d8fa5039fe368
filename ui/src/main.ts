import { mount } from 'svelte';
import App from './App.svelte';
import './theme.css';
import './base.css';
import './app.css';

mount(App, { target: document.body });
