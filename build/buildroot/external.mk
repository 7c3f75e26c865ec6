include $(sort $(wildcard $(BR2_EXTERNAL_FIELDPOST_PATH)/package/*/*.mk))
