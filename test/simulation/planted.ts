/** Which fault is planted in this build, if one is: plants.mjs puts its name here. Used by simulate.ts. */
export const PLANTED: string | null = null;
