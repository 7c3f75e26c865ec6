/** Which fault is planted in this build, if one is: plants.mjs puts its name here. */
export const PLANTED: string | null = null;
