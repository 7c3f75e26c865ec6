/**
 * The settings of the development program: those of a device and of the cloud.
 */
import type { ValuesOf } from '../base/config/row.js';
import { type Check, Settings } from '../base/config/settings.js';
import { CLOUD_ROWS, type CloudConfig, checkCloud } from '../cloud/settings.js';
import { checkDevice, completeDevice, DEVICE_ROWS, type DeviceConfig } from '../device/settings.js';
import { completeMail } from '../mail/settings.js';
import { checkMail, effectiveMail } from '../mail/settings-rules.js';

const ROWS = { ...DEVICE_ROWS, ...CLOUD_ROWS };
type DevValues = ValuesOf<typeof ROWS>;

/** Every setting of both. */
export interface DevConfig extends DevValues, DeviceConfig, CloudConfig {}

/** The settings of both. */
export const DEV_SETTINGS = new Settings<DevConfig>({
  rows: ROWS,
  complete: (values: DevValues, env, findings) => ({ ...values, ...completeDevice(values, env, findings) }),
  live: completeMail,
  check(check: Check<typeof ROWS, DevConfig>) {
    checkMail(check);
    checkDevice(check);
    checkCloud(check);
    check.owner(check.config.stateDir);
  },
  effective: effectiveMail,
  others: null,
});
