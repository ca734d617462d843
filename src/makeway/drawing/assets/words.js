// Numbers, spans and amounts as people read them.

export const sum = (values) => values.reduce((a, b) => a + b, 0);

export function span(s) {
  if (s === 0) return "0s";
  if (s < 1) return `${Math.round(s * 1000)}ms`;
  for (const [size, unit] of [
    [1, "s"],
    [60, "m"],
    [3600, "h"],
  ]) {
    if (s / size < 100) return `${(s / size).toFixed(1)}${unit}`;
  }
  return `${(s / 86400).toFixed(1)}d`;
}

export function number(v) {
  return Math.abs(v) >= 100 || v === Math.round(v) ? Math.round(v).toLocaleString("en") : v.toFixed(1);
}
